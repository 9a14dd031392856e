"""The subordinate IDs of this user: more than one user in containers, without root.

Sources: subuid(5), newuidmap(1), getsubids(1) of shadow-utils.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["IdMap", "NoSubordinateIdsError", "remove_mapped", "run_mapped", "subordinate_ids"]

# It is run, and not imported: it is a program of its own, which enters the namespace.
_SANDBOX = Path(__file__).parent / "node" / "sandbox"
_FILES = (Path("/etc/subuid"), Path("/etc/subgid"))
_PROGRAMS = ("newuidmap", "newgidmap")
_MAX_EXTENTS = 300
"""Of one map; the kernel takes 340."""
_SECONDS = 600.0


class NoSubordinateIdsError(Exception):
    """This user has no other users.

    Attributes:
        reason: why.
        fix: what would change it.
    """

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(f"{reason} ({fix})")
        self.reason = reason
        self.fix = fix


class IdMap(Struct, frozen=True):
    """Which user of this machine a user of a container is. Root is the one who runs the cluster.

    Attributes:
        uids: (first ID inside, first ID outside, count), without gaps inside; `gids` likewise.
        programs: paths of newuidmap and newgidmap.
    """

    uids: tuple[tuple[int, int, int], ...]
    gids: tuple[tuple[int, int, int], ...]
    programs: tuple[str, str]

    @property
    def users(self) -> int:
        """How many users a container has; their IDs are those below this number."""
        return sum(count for _, _, count in self.uids)

    @property
    def groups(self) -> int:
        """How many groups a container has."""
        return sum(count for _, _, count in self.gids)


def subordinate_ids(files: tuple[Path, Path] = _FILES) -> IdMap:
    """Return the map of users for containers, in which this process's user is root.

    Args:
        files: as /etc/subuid and /etc/subgid.

    Raises:
        NoSubordinateIdsError: There are none, or no programs to map them.
    """
    uid, gid = os.geteuid(), os.getegid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    change_uids, change_gids = (shutil.which(each) for each in _PROGRAMS)
    if change_uids is None or change_gids is None:
        raise NoSubordinateIdsError(
            "newuidmap is not installed", "install the package uidmap (Fedora: shadow-utils)"
        )
    extents = [_ranges(path, name, uid) for path in files]
    for path, found in zip(files, extents, strict=True):
        if not found:
            numbers = "100000-165535"
            raise NoSubordinateIdsError(
                f"{path} has no IDs of user {name}",
                f"sudo usermod --add-subuids {numbers} --add-subgids {numbers} {name}",
            )
    uids, gids = (_map(own, each) for own, each in zip((uid, gid), extents, strict=True))
    return IdMap(uids, gids, (change_uids, change_gids))


def _map(own: int, ranges: list[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    extents, following = [(0, own, 1)], 1
    for first, count in ranges[: _MAX_EXTENTS - 1]:
        extents.append((following, first, count))
        following += count
    return tuple(extents)


def _ranges(path: Path, name: str, uid: int) -> list[tuple[int, int]]:
    """Return (first, count) of the IDs of a user."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        owner, *numbers = line.strip().split(":")
        if owner in {name, str(uid)} and len(numbers) == 2 and all(map(str.isdecimal, numbers)):
            first, count = map(int, numbers)
            if first > 0 and count > 0 and first + count < 1 << 32:
                found.append((first, count))
    return found or _from_name_service(path, name)


def _from_name_service(path: Path, name: str) -> list[tuple[int, int]]:
    """Return the IDs that a directory service gives a user (`subid: sss` of nsswitch.conf)."""
    program = shutil.which("getsubids")
    if program is None or path not in _FILES:
        return []
    groups = ["-g"] if path == _FILES[1] else []
    try:
        asked = [program, *groups, name]
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    # 0: NAME FIRST COUNT
    fields = [line.split() for line in answer.stdout.splitlines()]
    numbers = [each[-2:] for each in fields if len(each) == 4 and all(map(str.isdecimal, each[2:]))]
    return [(int(first), int(count)) for first, count in numbers]


def run_mapped(id_map: IdMap, command: str, arguments: dict[str, Any]) -> None:
    """Run a command of `sandbox.mapped` as root of a user namespace with all users.

    Args:
        id_map: of the namespace.
        command: its name.
        arguments: for it.

    Raises:
        OSError: It failed; the message is its own.
    """
    content = json.dumps({"id_map": msgspec.to_builtins(id_map), "arguments": arguments})
    result = subprocess.run(
        [sys.executable, "-I", "-S", str(_SANDBOX), "mapped", command],
        input=content,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        raise OSError(result.stderr.strip().rpartition("\n")[2] or "it was killed")


def remove_mapped(paths: Sequence[Path]) -> None:
    """Remove directories with everything in them, also what belongs to users of containers.

    Raises:
        OSError: They cannot be removed.
    """
    try:
        id_map = subordinate_ids()
    except NoSubordinateIdsError as error:
        raise PermissionError(1, f"it belongs to others, and {error}", str(paths[0])) from error
    try:
        run_mapped(id_map, "remove", {"paths": [str(path) for path in paths]})
    except OSError as error:
        raise OSError(error.errno or errno.EPERM, str(error), str(paths[0])) from error
