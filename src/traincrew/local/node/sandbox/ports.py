"""The two ends of `ownports`: the program hands over what its parent then watches.

Costs nothing where a pod has no ports of its own.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import ownports


class Ports:
    """What concerns the ports of a container or command; made before it is forked.

    Args:
        specification: See `ownports.Doorman`; None if its ports are the machine's.
    """

    def __init__(self, specification: dict[str, Any] | None) -> None:
        self._specification = specification
        self._doorman: ownports.Doorman | None = None
        if specification is not None:
            from . import ownports

            # Opened before anybody enters namespaces where it shows something else.
            self._processes = ownports.open_processes()
            self._ours, self._theirs = socket.socketpair()

    def hand_over(self) -> None:
        """In the program, while it has the rights of its parent."""
        if self._specification is not None:
            from . import ownports

            ownports.hand_over(self._theirs)

    def close_theirs(self) -> None:
        """In its parent, after the fork."""
        if self._specification is not None:
            self._theirs.close()

    def receive(self) -> None:
        """In its parent, when the program runs."""
        if self._specification is not None:
            from . import ownports

            self._doorman = ownports.Doorman(self._ours, self._specification, self._processes)

    def watched(self) -> list[int]:
        """Descriptors to watch for reading."""
        doorman = self._doorman
        return [] if doorman is None or doorman.descriptor < 0 else [doorman.descriptor]

    def answer(self, ready: list[Any]) -> None:
        """Answer, if one of the descriptors that can be read is watched for this."""
        if self._doorman is not None and self._doorman.descriptor in ready:
            self._doorman.answer()
