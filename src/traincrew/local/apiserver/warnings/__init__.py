"""Warnings about valid but questionable objects, sent as ``Warning`` headers of their writes.

`writes` calls it; warnings never refuse or change a write.
"""

from .kinds import advise, repeated_owners

__all__ = ["advise", "repeated_owners"]
