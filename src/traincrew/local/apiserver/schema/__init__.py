"""Schemas: one tree for each kind, built-in or custom, and the operations that walk it.

Pruning, decoding, type checks, protobuf and OpenAPI. `reads`, `writes` and all typed operations
call it; the data of the built-in kinds is in ``data``. It knows no rules of individual kinds.
"""

from .kind import ObjectSchema, from_crd, load_builtin

__all__ = ["ObjectSchema", "from_crd", "load_builtin"]
