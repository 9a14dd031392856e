"""Addresses of pods: each has one of its own in 127/8, all of which is local on Linux."""

from __future__ import annotations

import socket
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["LOOPBACK", "PodAddresses", "can_use"]

LOOPBACK = "127.0.0.1"
# Services have 127.64/16 and up.
_SECOND_OCTETS = range(42, 64)
_CLAIM_PORT = 42042


def can_use(address: str) -> bool:
    """Whether a program on this machine can listen on an address."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


class PodAddresses:
    """Gives pods addresses from a network that no other cluster on this machine uses.

    Where such addresses cannot be used (macOS without configuration) every pod has 127.0.0.1.

    Args:
        state: Directory that remembers the network between starts.
    """

    def __init__(self, state: Path) -> None:
        self._memory = state / "network"
        self._claim: socket.socket | None = None
        self._taken: dict[str, str] = {}
        self._network: IPv4Network | None = None
        self._last = 0

    def open(self) -> None:
        """Claim a network."""
        if not can_use("127.42.0.1"):
            return
        candidates = list(_SECOND_OCTETS)
        try:
            remembered = int(self._memory.read_text())
        except (OSError, ValueError):
            remembered = candidates[0]
        if remembered in candidates:
            candidates.remove(remembered)
        chosen = remembered
        for candidate in (remembered, *candidates):
            claim = socket.socket()
            try:
                claim.bind((f"127.{candidate}.255.254", _CLAIM_PORT))
            except OSError:
                claim.close()
            else:
                # Bound, not listening: nobody can connect, and nobody else can claim it.
                self._claim = claim
                chosen = candidate
                break
        self._memory.write_text(str(chosen))
        self._network = IPv4Network(f"127.{chosen}.0.0/16")

    def close(self) -> None:
        """Let others have the network."""
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    def give(self, uid: str, wanted: str = "") -> str:
        """The address of a pod; the one it had before if that is still free.

        Raises:
            RuntimeError: All are taken.
        """
        if self._network is None:
            return LOOPBACK
        for address, owner in self._taken.items():
            if owner == uid:
                return address
        address = wanted
        if not wanted or wanted in self._taken or wanted == LOOPBACK:
            address = self._next()
        self._taken[address] = uid
        return address

    def take_back(self, uid: str) -> None:
        """A pod needs its address no longer."""
        for address, owner in list(self._taken.items()):
            if owner == uid:
                del self._taken[address]

    def _next(self) -> str:
        assert self._network is not None
        size = self._network.num_addresses
        for _ in range(size):
            # The last block is left out: the claim lives there.
            self._last = self._last % (size - 256) + 1
            address = str(self._network.network_address + self._last)
            if address not in self._taken:
                return address
        raise RuntimeError(f"all addresses of {self._network} are taken")
