"""Writes: create, update, patch and delete, from a decoded request to the change in the storage.

`http` calls the verbs; an object passes through defaulting, admission, validation and field
ownership here before it is stored. A verb never yields to the event loop, and has no access to the
connection.
"""
