"""Validation: the rules of every kind beyond its schema, with upstream's messages.

`writes` calls it with a pruned and defaulted object, and the stored one for an update; it returns a
list of causes. Pure functions: they know neither requests nor the storage.
"""

from .custom import validate as validate_custom
from .kinds import validate

__all__ = ["validate", "validate_custom"]
