"""What feeds have in common: subscribers that are notified of changes, without their content.

A subscriber collects what is new for it when it is ready to send: a slow browser gets fewer and
larger messages, and nothing queues up for it here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from traincrew.cli.display.text import plain
from traincrew.cli.watching.rights import missing_right
from traincrew.engine.errors import ForbiddenError, NotFoundError, UnreachableError

if TYPE_CHECKING:
    from traincrew.engine.resources import Resource

__all__ = ["Cursor", "Feed", "Message", "problem_of"]


class Message(NamedTuple):
    """One message to a browser: its event, and what is encoded as JSON."""

    event: str
    content: Any


class Cursor(Protocol):
    """How far one browser is."""

    def collect(self) -> list[Message]:
        """Return what has changed since the last call."""
        ...


class Feed:
    """Notifies its subscribers that there is something new."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Event] = set()

    @property
    def subscribers(self) -> int:
        """How many there are."""
        return len(self._waiting)

    def subscribe(self, event: asyncio.Event | None = None) -> asyncio.Event:
        """Return an event that is set now, and whenever something changes.

        Args:
            event: One that waits for other feeds as well; a new one without it.
        """
        event = event or asyncio.Event()
        event.set()
        self._waiting.add(event)
        return event

    def unsubscribe(self, event: asyncio.Event) -> None:
        """Forget a subscriber."""
        self._waiting.discard(event)

    def changed(self) -> None:
        """Notify all subscribers."""
        for event in self._waiting:
            event.set()


def problem_of(error: Exception | None, resource: Resource, namespace: str | None) -> str:
    """Return what to say of the state of a watch; empty if there is nothing to say.

    A kind that is not installed is none: a cluster need not have all of them.
    """
    if error is None or isinstance(error, NotFoundError):
        return ""
    if isinstance(error, ForbiddenError):
        return missing_right("watch", resource, namespace, error=error)
    if isinstance(error, UnreachableError):  # the same for all resources, so it is said once
        return "The cluster does not answer; what you see is its last known state. Trying again…"
    return f"{resource.plural}: trying again: {plain(str(error))}"
