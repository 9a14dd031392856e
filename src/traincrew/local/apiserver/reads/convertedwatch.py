"""A watch of a custom resource whose objects a webhook converts.

Its events wait for the webhook, one after the other: they are sent in order. If the webhook fails,
the watch ends with an ERROR event, as upstream's does, and the client lists again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests.conversions import ConversionNeeded
from traincrew.local.apiserver.values.errors import StatusError

from .versions import convert, convert_all
from .watch import BACKLOG_BYTES, BACKLOG_EVENTS, Watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests.conversions import Conversions
    from traincrew.local.apiserver.storage import Change, Entry

    from .representation import Representation
    from .selection import Selection
    from .watch import Connection

__all__ = ["ConvertedWatch"]


class ConvertedWatch(Watch):
    """One client's watch of a resource that a webhook converts.

    Args:
        selection: the objects to watch.
        representation: how to show them; its resource is `resource`.
        connection: the connection to the client.
        resource: the watched resource, bound to `known`.
        known: what the webhook has answered.
        answer: calls the webhook, and adds to `known`; raises `StatusError`.
    """

    def __init__(
        self,
        selection: Selection,
        representation: Representation,
        connection: Connection,
        *,
        resource: ResourceType,
        known: Conversions,
        answer: Callable[[ConversionNeeded], Awaitable[None]],
    ) -> None:
        super().__init__(selection, representation, connection)
        self._resource = resource
        self._known = known
        self._answer = answer
        self._unconverted: deque[Change] = deque()
        self._unconverted_bytes = 0
        self._following: asyncio.Task[None] | None = None

    async def _select(
        self, initial: Sequence[Entry], changes: Sequence[Change]
    ) -> list[tuple[str, Entry]]:
        if not self._selection.everything:
            await self._convert([*initial, *(each for change in changes for each in _of(change))])
        events = await super()._select(initial, changes)
        await self._convert([entry for _, entry in events])
        return events

    def _matches(self, entry: Entry) -> bool:
        if self._selection.everything:
            return self._selection.matches(entry)
        return self._selection.matches(convert(self._resource, entry))

    async def _convert(self, entries: Sequence[Entry]) -> None:
        """Have objects converted, so that they are known."""
        try:
            convert_all(self._resource, entries)
        except ConversionNeeded as needed:
            await self._answer(needed)

    def start_sending(self) -> None:
        """Send events as they arrive from now on."""
        self._known.clear()
        super().start_sending()

    def _queue_change(self, change: Change) -> None:
        self._unconverted.append(change)
        self._unconverted_bytes += _size(change)
        if (
            self._unconverted_bytes > BACKLOG_BYTES or len(self._unconverted) > BACKLOG_EVENTS
        ) and not self.overflowed:
            self._overflow()
        elif self._following is None:
            self._following = asyncio.create_task(self._follow(), name="converted-watch")

    async def _follow(self) -> None:
        try:
            while self._unconverted:
                change = self._unconverted[0]
                if not self._selection.everything:
                    await self._convert(_of(change))
                event = self._event_of(change)
                await self._convert([] if event is None else [event[1]])
                super()._queue_change(change)
                self._unconverted.popleft()
                self._unconverted_bytes -= _size(change)
                self._known.clear()
                self.flush()
        except StatusError as error:
            self._unconverted.clear()
            self.fail(error)
        finally:
            self._following = None

    def _line(self, kind: str, entry: Entry, change: Change | None) -> bytes:  # noqa: ARG002
        # Encoded too late to be shared with others: nobody would forget the bytes.
        return super()._line(kind, entry, None)

    def advance(self, revision: int) -> None:
        """Send a bookmark, unless events before it wait for the webhook."""
        if not self._unconverted:
            super().advance(revision)

    def close(self) -> None:
        """End the watch and remove it from the hub."""
        super().close()
        if self._following is not None:
            self._following.cancel()


def _of(change: Change) -> list[Entry]:
    """Return the states that selectors look at."""
    return [each for each in (change.old, change.new) if each is not None]


def _size(change: Change) -> int:
    return sum(len(each.data) for each in _of(change))
