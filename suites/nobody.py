"""Programs that run as a user without any privilege."""

from __future__ import annotations

import contextlib
import subprocess
import sys

NOBODY = 65534


def usable_python() -> str | None:
    """Return an interpreter of this version that every user may run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        with contextlib.suppress(OSError):
            if as_nobody([candidate, "-c", ""]).returncode == 0:
                return candidate
    return None


def as_nobody(
    command: list[str], directory: str = "/", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with these variables alone."""
    return subprocess.run(
        command,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
