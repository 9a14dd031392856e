"""Server-side apply: conflicts, field managers, ``metadata.managedFields``.

`writes` calls it to track ownership after a write and to merge an applied configuration into an
object. Pure functions over documents and their schema; they know neither requests nor the storage.
"""
