"""Who listens on a port of this machine, as far as /proc shows it."""

from __future__ import annotations

import pwd
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

__all__ = ["Listening", "holder_of", "parse_listening", "user_name"]

_PROC = Path("/proc")
_LISTENING = "0A"
_ALL = "0.0.0.0"  # noqa: S104


class Listening(NamedTuple):
    """A TCP socket that listens.

    Attributes:
        address: IPv4; `0.0.0.0` also for an IPv6 socket that listens on all addresses.
        port: of the machine.
        uid: the user who opened it.
        inode: identifies it among the descriptors of processes.
    """

    address: str
    port: int
    uid: int
    inode: str


def holder_of(port: int, address: str = "") -> str:
    """Describe the program that keeps others from listening on a port; empty if none does.

    Args:
        port: TCP.
        address: Programs that listen on this one count as well as those that listen on all; if it
            is 0.0.0.0, those on any.
    """
    for path in ("net/tcp", "net/tcp6"):
        with suppress(OSError):
            for each in parse_listening((_PROC / path).read_text(encoding="ascii")):
                if each.port == port and (address == _ALL or each.address in {_ALL, address}):
                    return _described(each)
    return ""


def parse_listening(text: str) -> list[Listening]:
    """Parse `/proc/net/tcp` or `/proc/net/tcp6`; IPv6 addresses without IPv4 are left out."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10 or fields[3] != _LISTENING:
            continue
        local, _, port = fields[1].partition(":")
        address = _ipv4(local)
        if address:
            found.append(Listening(address, int(port, 16), int(fields[7]), fields[9]))
    return found


def _ipv4(digits: str) -> str:
    """Return an address of /proc, which has words in the byte order of this machine."""
    words = [
        int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)
    ]
    if len(words) == 1 or words[:3] == [b"\0" * 4, b"\0" * 4, b"\0\0\xff\xff"]:
        return socket.inet_ntoa(words[-1])
    # A socket for both families has the wildcard address of IPv6; so has one for IPv6 alone.
    return "" if any(map(any, words)) else _ALL


def _described(found: Listening) -> str:
    user = user_name(found.uid)
    process = _process_with(f"socket:[{found.inode}]")
    if process is None:
        return f"a program of user {user}"
    number, program = process
    return f"{program} (process {number} of user {user})"


def user_name(uid: int) -> str:
    """Return the name of a user, or the number if there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _process_with(link: str) -> tuple[int, str] | None:
    """Return number and program of a process that has a descriptor open, if it may be seen."""
    for process in _PROC.iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError):
            # A busy program closes descriptors while they are read: that ends none of the search.
            if any(_leads_to(each, link) for each in (process / "fd").iterdir()):
                program = (process / "comm").read_text(errors="replace").strip()
                return int(process.name), "".join(filter(str.isprintable, program))
    return None


def _leads_to(descriptor: Path, link: str) -> bool:
    try:
        return str(descriptor.readlink()) == link
    except OSError:
        return False
