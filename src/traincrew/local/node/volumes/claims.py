"""PersistentVolumeClaims: the directories of their contents, and their sizes."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.node.machine.specs import PodOptions

__all__ = ["ClaimContents", "measure", "volume_claim_directory"]

_MAX_ENTRIES = 20_000
_MAX_SECONDS = 0.5


class ClaimContents(NamedTuple):
    """The contents of a PersistentVolumeClaim; the counts are lower bounds unless `complete`."""

    namespace: str
    name: str
    directory: Path
    files: int
    bytes: int
    complete: bool


def volume_claim_directory(
    claims: Path, options: PodOptions, namespace: str, name: str, uid: str
) -> Path:
    """Return the directory of a claim.

    Args:
        claims: The node's own directory for claims.
        options: May name another one, with directories named after the claims.
        namespace: Of the claim.
        name: Of the claim.
        uid: Of the claim.
    """
    if options.claims is None:
        return claims / namespace / uid
    # Names of claims contain no '@', so the two forms cannot collide.
    own = namespace == options.claims_namespace
    return options.claims / (name if own else f"{name}@{namespace}")


def measure(directory: Path) -> tuple[int, int, bool]:
    """Count the files below a directory and their bytes, within a bounded time.

    Returns:
        The number of files, their bytes, and whether all were counted.
    """
    until = time.monotonic() + _MAX_SECONDS
    files = size = seen = 0
    rest = [str(directory)]
    while rest:
        try:
            entries = os.scandir(rest.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                seen += 1
                if seen > _MAX_ENTRIES or time.monotonic() > until:
                    return files, size, False
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    rest.append(entry.path)
                elif stat.S_ISREG(status.st_mode):
                    files += 1
                    size += status.st_size
    return files, size, True
