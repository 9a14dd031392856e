"""User namespaces with more than one user, by subordinate IDs (subuid(5), newuidmap(1)).

An ID map is what `traincrew.local.subordinate.IdMap` becomes as JSON: `uids` and
`gids`, lists of (first ID inside, first ID outside, count), and `programs`, the paths of newuidmap
and newgidmap.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from . import syscalls

if TYPE_CHECKING:
    from collections.abc import Callable


def enter(id_map: dict[str, Any]) -> None:
    """Enter a new user namespace, in which this user is root and has other users.

    Raises:
        OSError: It is refused; the message is that of newuidmap or newgidmap.
    """
    this = os.getpid()

    def write_maps(says: int) -> int:
        for program, kind in zip(id_map["programs"], ("uids", "gids"), strict=True):
            numbers = [str(number) for extent in id_map[kind] for number in extent]
            # Its messages are the caller's to report.
            streams = [(os.POSIX_SPAWN_DUP2, says, 2)]
            command = [program, str(this), *numbers]
            process = os.posix_spawn(program, command, {}, file_actions=streams)
            if code := os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]):
                return code
        return 0

    _unshare(write_maps)


def nest(id_map: dict[str, Any], process: int) -> None:
    """Enter a further user namespace with the same IDs as this one.

    What was mounted in this one cannot be changed from it.

    Args:
        id_map: of this one.
        process: descriptor of the directory `/proc/self` of this process.

    Raises:
        OSError: It is refused.
    """

    def write_maps(_: int) -> int:
        for name, kind in (("uid_map", "uids"), ("gid_map", "gids")):
            lines = (f"{inside} {inside} {count}\n" for inside, _, count in id_map[kind])
            file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=process)
            os.write(file, "".join(lines).encode())
            os.close(file)
        return 0

    _unshare(write_maps)


def _unshare(write_maps: Callable[[int], int]) -> None:
    """Enter a new user namespace whose maps a process outside of it writes.

    Args:
        write_maps: called in that process with a descriptor for messages; returns an exit code.
    """
    ready, entered = os.pipe()
    heard, says = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(entered)
        _help(write_maps, ready, says)
    os.close(ready)
    os.close(says)
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        os.write(entered, b"1")
    finally:
        os.close(entered)
        said = _read_all(heard)
        status = os.waitpid(helper, 0)[1]
    if status != 0:
        raise OSError(1, said.decode(errors="replace").strip() or "no map of users was written")


def _help(write_maps: Callable[[int], int], ready: int, says: int) -> NoReturn:
    code = 1
    try:
        if os.read(ready, 1):
            code = write_maps(says)
    except OSError as error:
        os.write(says, f"{error.filename}: {error.strerror}".encode())
    finally:
        os._exit(1 if code else 0)


def _read_all(pipe: int) -> bytes:
    data = b""
    while chunk := os.read(pipe, 4096):
        data += chunk
    os.close(pipe)
    return data
