"""Static defaults of the built-in kinds, as upstream sets them when it decodes an object.

They are applied to a document of a known kind, in place. Defaults that depend on anything but the
document itself (addresses, classes, limits) belong to `writes` and `admission`.
"""

from .kinds import after_uid, apply, externally_accessible

__all__ = ["after_uid", "apply", "externally_accessible"]
