"""The generated programs of a cache: Python programs that run with a given interpreter."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from pathlib import Path

from traincrew.local.directories import make_directory
from traincrew.local.images.launchers import launcher

__all__ = ["Programs"]


class Programs:
    """Makes executable copies of Python programs.

    Args:
        directory: Where they are kept, for all processes.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._private: tempfile.TemporaryDirectory[str] | None = None

    def make(self, source: Path, interpreter: Path) -> Path:
        """Return an executable copy of `source` that runs with `interpreter`.

        ``-I -S`` makes it start in a few milliseconds, without installed packages.

        Raises:
            OSError: The source cannot be read, or the copy not written anywhere.
        """
        content = launcher(interpreter, source.read_bytes(), "-IS")
        name = hashlib.sha256(content).hexdigest()[:16]
        path = self._directory / name / source.stem
        if _has(path, content):
            return path
        try:
            return _write(path, content)
        except OSError:
            # The cache is read-only: this process keeps a temporary copy of its own.
            if self._private is None:
                self._private = tempfile.TemporaryDirectory(prefix="traincrew-programs-")
            path = Path(self._private.name) / name / source.stem
            return path if _has(path, content) else _write(path, content)


def _has(path: Path, content: bytes) -> bool:
    with contextlib.suppress(OSError):
        return path.read_bytes() == content
    return False


def _write(path: Path, content: bytes) -> Path:
    make_directory(path.parent)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).chmod(0o755)
    Path(file.name).rename(path)
    return path
