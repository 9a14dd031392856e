"""The mark of an opaque directory: overlayfs shows nothing of the layers below in it.

Rule: the documentation of overlayfs, "whiteouts and opaque directories". The attribute `user.*` is
for mounts with `userxattr`, `trusted.*` for those of root.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

__all__ = ["is_opaque", "make_opaque"]

_ATTRIBUTE = "user.overlay.opaque"
_OF_ROOT = "trusted.overlay.opaque"
_MARK = b"y"


def is_opaque(directory: int | str) -> bool:
    """Return whether a directory hides those of the layers below.

    Args:
        directory: Its descriptor, or its path; a link is not followed.
    """
    try:
        if isinstance(directory, int):
            return os.getxattr(directory, _ATTRIBUTE) == _MARK
        return os.getxattr(directory, _ATTRIBUTE, follow_symlinks=False) == _MARK
    except OSError:
        return False


def make_opaque(directory: int) -> None:
    """Let an open directory hide those of the layers below.

    Raises:
        OSError: The file system keeps no attributes.
    """
    try:
        os.setxattr(directory, _ATTRIBUTE, _MARK)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        raise OSError(
            error.errno,
            "an image replaces a directory of its lower layers, which is marked by an extended "
            "attribute (user.*), and the cache's file system has none",
        ) from error
    with suppress(PermissionError):  # of root, outside of user namespaces
        os.setxattr(directory, _OF_ROOT, _MARK)
