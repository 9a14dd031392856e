"""The shared libraries that programs of this machine need."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["libraries_of"]


def libraries_of(programs: Iterable[str | Path]) -> list[Path]:
    """Return the libraries of some programs, and the loader, as `ldd` names them.

    Args:
        programs: Paths; static ones need none.
    """
    done = subprocess.run(
        ["ldd", *map(str, programs)], capture_output=True, text=True, check=False
    ).stdout
    return sorted(map(Path, set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done, re.MULTILINE))))
