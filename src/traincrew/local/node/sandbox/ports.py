"""The handover of `ownports` from the program to its parent."""

from __future__ import annotations

import select
import socket
from typing import Any

from . import ownports


class Ports:
    """The ports of a container or command; created before it is forked.

    Args:
        specification: See `ownports.Supervisor`; None if its ports are the machine's.
    """

    def __init__(self, specification: dict[str, Any] | None) -> None:
        self._specification = specification
        self._supervisor: ownports.Supervisor | None = None
        if specification is not None:
            # Opened before entering namespaces with another /proc.
            self._processes = ownports.open_processes()
            self._ours, self._theirs = socket.socketpair()

    def hand_over(self) -> None:
        """Install the filter; called in the program while it has the privileges of its parent."""
        if self._specification is not None:
            ownports.hand_over(self._theirs)

    def close_theirs(self) -> None:
        """Close the program's descriptors; called in its parent after the fork."""
        if self._specification is not None:
            self._theirs.close()

    def receive(self) -> None:
        """Receive the filter; called in its parent when the program is running."""
        if self._specification is not None:
            self._supervisor = ownports.Supervisor(self._ours, self._specification, self._processes)

    def watched(self) -> list[int]:
        """Return the descriptors to watch for reading."""
        supervisor = self._supervisor
        return [] if supervisor is None or supervisor.descriptor < 0 else [supervisor.descriptor]

    def answer_rest(self) -> None:
        """Handle the notifications of what a command has left running, until all of it has ended.

        Without this process, their calls would fail.
        """
        supervisor = self._supervisor
        if supervisor is None or supervisor.descriptor < 0:
            return
        poll = select.poll()
        poll.register(supervisor.descriptor, select.POLLIN)
        while supervisor.descriptor >= 0:
            if any(event & select.POLLHUP for _, event in poll.poll()):
                return
            supervisor.answer()

    def answer(self, ready: list[Any]) -> None:
        """Handle a notification if its descriptor is among the readable ones."""
        if self._supervisor is not None and self._supervisor.descriptor in ready:
            self._supervisor.answer()
