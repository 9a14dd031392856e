"""IP addresses of pods: one each in 127/8, all of which is local on Linux."""

from __future__ import annotations

import socket
from collections import Counter
from ipaddress import IPv4Network
from pathlib import Path

from traincrew.local.node.machine.loopback import LOOPBACK, can_use
from traincrew.local.sockets import parse_listening, user_name

__all__ = ["NetworksTakenError", "PodAddresses", "holders"]

# Services use 127.64/16 and up.
_SECOND_OCTETS = range(42, 64)
_CLAIM_PORT = 42042
# One of the last 256 addresses of the network, none of which a pod gets.
_DNS_OFFSET = -256 + 53


class NetworksTakenError(OSError):
    """Other clusters, or programs of any user, hold all networks for pods."""

    def __init__(self) -> None:
        known = Counter(holders())
        who = [f"user {name!r} ({count})" for name, count in sorted(known.items())]
        if unknown := len(_SECOND_OCTETS) - known.total():
            who.append(f"programs that cannot be identified ({unknown})")
        super().__init__(
            f"all {len(_SECOND_OCTETS)} networks for pods, 127.{_SECOND_OCTETS[0]}.0.0/16 to "
            f"127.{_SECOND_OCTETS[-1]}.0.0/16, are taken by: {', '.join(who)}; end a cluster "
            f"(`traincrew down`), or a program that listens on port {_CLAIM_PORT}"
        )


def holders() -> list[str]:
    """Return the users that hold a network, one entry for each, as far as /proc shows them."""
    wanted = {(_claim_address(octet), _CLAIM_PORT) for octet in _SECOND_OCTETS}
    try:
        text = Path("/proc/net/tcp").read_text(encoding="ascii")
    except OSError:
        return []
    return [
        user_name(each.uid) for each in parse_listening(text) if (each.address, each.port) in wanted
    ]


def _claim_address(octet: int) -> str:
    return f"127.{octet}.255.254"


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
        self._nodes: dict[str, str] = {}
        """The node whose address a pod has, by the pod's UID."""
        self._network: IPv4Network | None = None
        self._last = 0

    def open(self) -> None:
        """Claim a network.

        Raises:
            NetworksTakenError: All are claimed.
            OSError: The state directory cannot be written.
        """
        if not can_use("127.42.0.1"):
            return
        candidates = list(_SECOND_OCTETS)
        try:
            previous = int(self._network_file.read_text())
        except (OSError, ValueError):
            previous = candidates[0]
        if previous in candidates:
            candidates.remove(previous)
        for candidate in (previous, *candidates):
            claim = socket.socket()
            try:
                claim.bind((_claim_address(candidate), _CLAIM_PORT))
                # No connection is ever accepted. It listens only to be shown with its user to
                # others that look for a network.
                claim.listen(0)
            except OSError:
                claim.close()
            else:
                self._claim = claim
                chosen = candidate
                break
        else:
            raise NetworksTakenError
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

    def allocate(self, uid: str, wanted: str = "", node: str = "") -> str:
        """Return the address of a pod; allocate `wanted` if it is still free.

        Args:
            uid: Of the pod.
            wanted: Its address before a restart; empty for any.
            node: The virtual node whose address the pod has, as others of the node have
                (`hostNetwork`); empty for an address of its own.

        Raises:
            RuntimeError: All addresses are taken.
        """
        if self._network is None:
            return LOOPBACK
        owner = f"node/{node}" if node else uid
        if node:
            self._nodes[uid] = owner
        for address, holder in self._taken.items():
            if holder == owner:
                return address
        address = wanted
        if not wanted or wanted in self._taken or wanted == LOOPBACK:
            address = self._next()
        self._taken[address] = owner
        return address

    def release(self, uid: str) -> None:
        """Release the address of a pod; that of a node with its last pod."""
        node = self._nodes.pop(uid, "")
        if node in self._nodes.values():
            return
        uid = node or uid
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
