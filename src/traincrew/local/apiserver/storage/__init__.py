"""The storage: the objects of the cluster, one revision counter, recent changes, and a file.

`reads` and `writes` share one. It stores documents under a resource and a key, and knows nothing
of kinds, schemas or requests.
"""

from .entries import Change, Entry, Key, StorageError
from .storage import HISTORY, CompactedError, Storage

__all__ = ["HISTORY", "Change", "CompactedError", "Entry", "Key", "Storage", "StorageError"]
