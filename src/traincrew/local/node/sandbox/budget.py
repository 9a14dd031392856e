"""A number of bytes that containers share: how much of what they wrote may be copied."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import fcntl
import os

__all__ = ["take"]


def take(path: str, wanted: int) -> int:
    """Take bytes from a budget; return how many were left of those that are wanted.

    Args:
        path: A file with the number of bytes that are left, in decimal digits.
        wanted: Number of bytes.
    """
    try:
        budget = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        fcntl.flock(budget, fcntl.LOCK_EX)  # released when the file is closed
        left = int(os.pread(budget, 32, 0) or b"0")
        granted = max(0, min(wanted, left))
        os.ftruncate(budget, 0)
        os.pwrite(budget, str(left - granted).encode(), 0)
    except (OSError, ValueError):
        return 0
    else:
        return granted
    finally:
        os.close(budget)
