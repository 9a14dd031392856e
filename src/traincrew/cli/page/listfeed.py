"""All jobs of a cluster, or of one namespace, as rows that change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from traincrew.cli.display.objects import Job
from traincrew.cli.jobview.model import JobSummary, summary
from traincrew.cli.page.feed import Feed, Message, problem_of
from traincrew.cli.watching.kinds import ALL, Served
from traincrew.engine.cache import Informer

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.client import Client

__all__ = ["ListCursor", "ListFeed", "kind_key", "served_by"]


def kind_key(served: Served) -> str:
    """Return how the page names a kind: ``KIND.GROUP``, because two groups may have the same."""
    return f"{served.resource.kind}.{served.resource.group}"


def served_by(key: str) -> Served | None:
    """Return the kind of a `kind_key`."""
    return next((served for served in ALL if kind_key(served) == key), None)


class ListFeed(Feed):
    """Watches the jobs of all kinds.

    Args:
        client: The API server.
        namespace: Only this namespace; None for all.
    """

    def __init__(self, client: Client, namespace: str | None) -> None:
        super().__init__()
        self._client = client
        self._namespace = namespace
        self.rows: dict[str, tuple[int, JobSummary]] = {}
        """Rows by key, each with the number of its last change."""
        self.problems: dict[str, str] = {}
        self.version = 0
        self._known: set[str] = set()

    @property
    def synced(self) -> bool:
        """Whether the jobs of each kind are known, or why they are not."""
        return len(self._known) == len(ALL)

    async def run(self) -> None:
        """Watch until cancelled."""
        informers = {kind_key(served): self._informer(served) for served in ALL}
        async with asyncio.TaskGroup() as tasks:
            for key, informer in informers.items():
                tasks.create_task(informer.run())
                tasks.create_task(self._until_synced(key, informer))

    async def _until_synced(self, key: str, informer: Informer[Any]) -> None:
        await informer.wait_synced()
        self._known.add(key)
        self.changed()

    def _informer(self, served: Served) -> Informer[Any]:
        resource, key = served.resource, kind_key(served)

        def state(error: Exception | None) -> None:
            text = problem_of(error, resource, self._namespace)
            self._known.add(key)
            if text != self.problems.get(key, ""):
                self.problems[key] = text
                self._next()
            else:
                self.changed()

        informer: Informer[Any] = Informer(
            self._client, resource, Job, namespace=self._namespace, on_state=state
        )
        informer.add_handler(self._handler(served))
        return informer

    def _handler(self, served: Served) -> Callable[[Any, Any], None]:
        prefix = kind_key(served)

        def handle(old: Any, new: Any) -> None:
            metadata = (new or old).metadata
            key = f"{prefix}/{metadata.namespace}/{metadata.name}"
            version = self._next()
            if new is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = version, summary(served.kind, new)

        return handle

    def _next(self) -> int:
        self.version += 1
        self.changed()
        return self.version


class ListCursor:
    """How far one browser is with the list.

    It knows which rows the browser has, so that jobs that are gone need not be remembered.
    """

    def __init__(self, feed: ListFeed) -> None:
        self._feed = feed
        self._seen = -1
        self._keys: set[str] = set()

    def collect(self) -> list[Message]:
        """Return the rows that have changed, all of them the first time."""
        feed, seen = self._feed, self._seen
        if not feed.synced or feed.version == seen:
            return []
        keys = set(feed.rows)
        removed = sorted(self._keys - keys)
        self._seen, self._keys = feed.version, keys
        content = {
            "changed": {key: row for key, (version, row) in feed.rows.items() if version > seen},
            "removed": removed,
            "problems": sorted({text for text in feed.problems.values() if text}),
        }
        return [Message("rows", content)]
