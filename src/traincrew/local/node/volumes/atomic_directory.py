"""A directory whose files change atomically, in the layout of the kubelet.

Visible names are symbolic links into `..data`, itself a link to a directory with the files of one
version; a new version becomes visible by replacing that one link. Upstream: `atomic_writer.go`.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.node.volumes.payloads import File

__all__ = ["write_directory"]

_DATA = "..data"


def write_directory(
    directory: Path, files: Mapping[str, File], *, chown: bool = False, group: int = -1
) -> bool:
    """Make `directory` contain exactly `files`.

    Args:
        directory: Created with its parents if missing.
        files: Relative path -> file.
        chown: Whether files belong to their `owner`, which takes root; otherwise they belong to
            this process's user.
        group: Group of the files; -1 for this process's group.

    Returns:
        Whether something changed.

    Raises:
        OSError: The directory cannot be written.
        ValueError: A path leads out of the directory.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for path in files:
        parts = Path(path).parts
        if not parts or Path(path).is_absolute() or ".." in parts or parts[0].startswith(".."):
            raise ValueError(f"invalid path {path!r}: must be relative and must not contain '..'")
    current = _current(directory)
    if current is not None and _same(current, files):
        return False
    number = 0 if current is None else int(current.name.rpartition(".")[2]) + 1
    version = directory / f"..{os.getpid()}.{number}"
    shutil.rmtree(version, ignore_errors=True)
    version.mkdir(mode=0o755)
    for path, file in files.items():
        target = version / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.content)
        target.chmod(file.mode)
        owner = file.owner if chown else -1
        if owner >= 0 or group >= 0:
            os.chown(target, owner, group)
    link = directory / "..data_tmp"
    link.unlink(missing_ok=True)
    link.symlink_to(version.name)
    link.replace(directory / _DATA)
    wanted = {Path(path).parts[0] for path in files}
    for name in wanted:
        with suppress(FileExistsError):
            (directory / name).symlink_to(Path(_DATA) / name)
    for entry in directory.iterdir():
        if not entry.name.startswith("..") and entry.name not in wanted:
            entry.unlink()
    if current is not None:
        shutil.rmtree(current, ignore_errors=True)
    return True


def _current(directory: Path) -> Path | None:
    try:
        return directory / (directory / _DATA).readlink()
    except OSError:
        return None


def _same(version: Path, files: Mapping[str, File]) -> bool:
    existing = {
        str(path.relative_to(version))
        for path in version.rglob("*")
        if path.is_file() or path.is_symlink()
    }
    if existing != {str(Path(path)) for path in files}:
        return False
    return all(
        (version / path).stat().st_mode & 0o7777 == file.mode
        and (version / path).read_bytes() == file.content
        for path, file in files.items()
    )
