"""Warnings about the ports of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.documents import Document, items

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["container_ports"]


class _KnownPorts:
    """The ports of a pod so far, by what they may conflict with."""

    def __init__(self) -> None:
        self._count = 0
        self._positions: dict[tuple[Any, ...], list[int]] = {}

    def conflicting(self, port: Document) -> list[int]:
        """Return the positions of the ports that a port conflicts with.

        They have the same container port and protocol. Without a host port, every other one is
        in conflict; else those without one, and those with the same one and the same address, or
        where one of them has none.
        """
        base, number, address = _key(port)
        if not number:
            return self._positions.get(base, [])
        keys = [(*base, 0), (*base, number, "") if address else (*base, number)]
        if address:
            keys.append((*base, number, address))
        return sorted(each for key in keys for each in self._positions.get(key, ()))

    def add(self, port: Document) -> None:
        """Add the next port."""
        base, number, address = _key(port)
        keys = [base, (*base, number)]
        if number:
            keys.append((*base, number, address))
        for key in keys:
            self._positions.setdefault(key, []).append(self._count)
        self._count += 1


def _key(port: Document) -> tuple[tuple[Any, ...], int, str]:
    base = port.get("containerPort"), port.get("protocol")
    return base, port.get("hostPort", 0), port.get("hostIP", "")


def container_ports(containers: list[tuple[Document, str]]) -> Iterator[str]:
    """Yield warnings about the ports of a pod's containers, which are given with their paths."""
    ports = [
        (port, f"{path}.ports[{index}]")
        for container, path in containers
        if "ports" in container
        for index, port in enumerate(items(container, "ports"))
    ]
    known = _KnownPorts()
    for port, here in ports:
        address, number = port.get("hostIP", ""), port.get("hostPort", 0)
        if address and not number:
            yield f"{here}: hostIP set without hostPort: {_shown_port(port)}"
        for position in known.conflicting(port):
            other, there = ports[position]
            its_address, its_number = other.get("hostIP", ""), other.get("hostPort", 0)
            if (address, number) == (its_address, its_number):
                yield f"{here}: duplicate port definition with {there}"
            elif not number or not its_number:
                yield f"{here}: overlapping port definition with {there}"
            else:
                yield f"{here}: dangerously ambiguous port definition with {there}"
        known.add(port)
    names: dict[str, str] = {}
    for port, here in ports:
        name = port.get("name", "")
        if name and (there := names.setdefault(name, here)) != here:
            text = f"services and probes that select ports by name will use {there}"
            yield f'{here}: duplicate port name "{name}" with {there}, {text}'


def _shown_port(port: Document) -> str:
    """Return a port as Go prints its struct."""
    return (
        f"{{Name:{port.get('name', '')} HostPort:{port.get('hostPort', 0)} "
        f"ContainerPort:{port.get('containerPort', 0)} Protocol:{port.get('protocol', '')} "
        f"HostIP:{port.get('hostIP', '')}}}"
    )
