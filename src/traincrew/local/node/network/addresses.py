"""IP addresses of pods: one each in 127/8, all of which is local on Linux."""

from __future__ import annotations

import socket
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

from traincrew.local.node.machine.loopback import LOOPBACK, can_use

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PodAddresses"]

# Services use 127.64/16 and up.
_SECOND_OCTETS = range(42, 64)
_CLAIM_PORT = 42042
# One of the last 256 addresses of the network, none of which a pod gets.
_DNS_OFFSET = -256 + 53


class PodAddresses:
    """Allocates pod addresses from a network that no other cluster on this machine uses.

    Where such addresses are unusable (macOS without configuration), every pod has 127.0.0.1.

    Args:
        state: Directory where the chosen network is kept across restarts.
    """

    def __init__(self, state: Path) -> None:
        self._network_file = state / "network"
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
            previous = int(self._network_file.read_text())
        except (OSError, ValueError):
            previous = candidates[0]
        if previous in candidates:
            candidates.remove(previous)
        chosen = previous
        for candidate in (previous, *candidates):
            claim = socket.socket()
            try:
                claim.bind((f"127.{candidate}.255.254", _CLAIM_PORT))
            except OSError:
                claim.close()
            else:
                # Bound, not listening: it accepts no connections, and no other cluster can bind it.
                self._claim = claim
                chosen = candidate
                break
        self._network_file.write_text(str(chosen))
        self._network = IPv4Network(f"127.{chosen}.0.0/16")

    @property
    def dns_server(self) -> str:
        """The address of the cluster's DNS server; empty where pods have no addresses."""
        if self._network is None:
            return ""
        return str(self._network.network_address + self._network.num_addresses + _DNS_OFFSET)

    def close(self) -> None:
        """Release the network."""
        if self._claim is not None:
            self._claim.close()
            self._claim = None

    def allocate(self, uid: str, wanted: str = "") -> str:
        """Return the address of a pod; allocate `wanted` if it is still free.

        Raises:
            RuntimeError: All addresses are taken.
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

    def release(self, uid: str) -> None:
        """Release the address of a pod."""
        for address, owner in list(self._taken.items()):
            if owner == uid:
                del self._taken[address]

    def _next(self) -> str:
        assert self._network is not None
        size = self._network.num_addresses
        for _ in range(size):
            # The last block is reserved for the claim and the DNS server.
            self._last = self._last % (size - 256) + 1
            address = str(self._network.network_address + self._last)
            if address not in self._taken:
                return address
        raise RuntimeError(f"all addresses of {self._network} are taken")
