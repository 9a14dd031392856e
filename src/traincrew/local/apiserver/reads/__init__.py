"""Reads: get, list and watch, and the representations of objects.

`http` sends what this package produces: objects, pages, tables and watch events, encoded once for
all readers. Nothing here changes stored objects.
"""
