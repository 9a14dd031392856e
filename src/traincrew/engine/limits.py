"""The limit of open files of this process; every connection needs one.

The soft limit is low on most machines because of programs that use `select`. The operator and the
embedded cluster do not, so they raise their own to the hard limit. Containers get the limit this
process was started with, since some programs close every possible file descriptor, one by one.
"""

from __future__ import annotations

import resource
from contextlib import suppress

__all__ = ["raise_file_limit", "restore_file_limit"]

# More is of no use; some machines have no limit at all.
_MAX_FILES = 1 << 20

_original: list[tuple[int, int]] = []


def raise_file_limit() -> None:
    """Raise the soft limit of this process to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        _original[:] = _original or [(soft, hard)]


def restore_file_limit(process: int) -> None:
    """Give a newly started process the limit from before `raise_file_limit`.

    Args:
        process: its PID.
    """
    change = getattr(resource, "prlimit", None)  # Linux
    if _original and change is not None:
        with suppress(OSError, ValueError):
            change(process, resource.RLIMIT_NOFILE, _original[0])
