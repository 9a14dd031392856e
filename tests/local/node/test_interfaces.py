"""The list of network interfaces that a pod's programs get: with the pod's address."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest

from traincrew.local.node.sandbox import interfaces

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONF, ADDRESS, MASK, INDEX = interfaces.REQUESTS
OWN = socket.inet_aton("127.42.0.7")
BUFFER = 1024


def entry(name: bytes, address: str) -> bytes:
    """Return a struct ifreq."""
    return struct.pack("=16sHH4s16x", name, socket.AF_INET, 0, socket.inet_aton(address))


MACHINE = [entry(b"lo", "127.0.0.1"), entry(b"eth0", "10.0.0.2"), entry(b"eth1", "10.0.0.3")]


class Memory:
    """A file as the memory of a program; the kernel's list is what the test sets."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w+b", buffering=0)
        self.file.truncate(4096)

    def write(self, place: int, data: bytes) -> None:
        self.file.seek(place)
        self.file.write(data)

    def read(self, place: int, count: int) -> bytes:
        self.file.seek(place)
        return self.file.read(count)

    def ask(self, request: int) -> bool:
        return interfaces.emulated(request, -1, self.file.fileno(), 0, OWN)

    def listed(self, size: int) -> list[tuple[str, str]]:
        """Return the names and addresses that a program with a buffer of this size gets."""
        self.write(0, struct.pack("=i4xQ", size, BUFFER))
        assert self.ask(CONF)
        (length,) = struct.unpack("=i", self.read(0, 4))
        found = [self.read(BUFFER + start, 40) for start in range(0, length, 40)]
        return [(each[:16].rstrip(b"\0").decode(), socket.inet_ntoa(each[20:24])) for each in found]


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    monkeypatch.setattr(interfaces, "_interfaces", lambda _: b"".join(MACHINE))
    memory = Memory(tmp_path / "memory")
    yield memory
    memory.file.close()


SEEN = [("lo", "127.0.0.1"), ("eth0", "10.0.0.2"), ("eth1", "10.0.0.3")]


def test_the_pods_address_is_the_last_one(memory: Memory) -> None:
    assert memory.listed(400) == [*SEEN, ("eth0:p", "127.42.0.7")]


@pytest.mark.parametrize(("size", "count"), [(160, 4), (159, 3), (85, 2), (39, 0), (-1, 0)])
def test_a_small_buffer_gets_what_it_has_room_for(memory: Memory, size: int, count: int) -> None:
    assert len(memory.listed(size)) == count
    assert memory.read(BUFFER + count * 40, 40) == bytes(40)


def test_without_a_buffer_the_size_is_told(memory: Memory) -> None:
    memory.write(0, struct.pack("=i4xQ", 0, 0))
    assert memory.ask(CONF)
    assert struct.unpack("=i", memory.read(0, 4)) == (160,)


@pytest.mark.parametrize(
    ("request_number", "answer"),
    [
        (ADDRESS, struct.pack("=HH4s8x", socket.AF_INET, 0, OWN)),
        (MASK, struct.pack("=HH4s8x", socket.AF_INET, 0, b"\xff" * 4)),
        (INDEX, struct.pack("=i", 1 << 20) + bytes(12)),
    ],
)
def test_what_is_asked_of_the_alias(memory: Memory, request_number: int, answer: bytes) -> None:
    memory.write(0, b"eth0:p\0")
    assert memory.ask(request_number)
    assert memory.read(16, 16) == answer


@pytest.mark.parametrize("request_number", [ADDRESS, MASK, INDEX])
@pytest.mark.parametrize("name", [b"eth0", b"lo", b"eth0:q", b"eth0:pp", b""])
def test_the_kernel_answers_for_others(memory: Memory, request_number: int, name: bytes) -> None:
    memory.write(0, name + b"\0")
    assert not memory.ask(request_number)
    assert memory.read(16, 16) == bytes(16)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        MACHINE[:1],
        [*MACHINE, entry(b"dummy0", "127.42.0.7")],
        [entry(b"a-name-of-15-ch", "10.0.0.2")],
    ],
)
def test_where_nothing_can_be_added(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, entries: list[bytes]
) -> None:
    monkeypatch.setattr(interfaces, "_interfaces", lambda _: b"".join(entries))
    memory.write(0, struct.pack("=i4xQ", 400, BUFFER))
    assert not memory.ask(CONF)


def test_the_kernels_list_is_read() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        entries = interfaces._interfaces(asked.fileno())
    assert b"lo" in {
        entries[start : start + 16].rstrip(b"\0") for start in range(0, len(entries), 40)
    }
