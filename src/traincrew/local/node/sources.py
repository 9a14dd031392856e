"""The ConfigMaps and Secrets that pods use: their values, and a watch of their changes."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import CONFIG_MAPS, SECRETS
from traincrew.local.node.fields.references import Reference, Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traincrew.engine.client import Client

__all__ = ["SourceWatch", "fetch"]


async def fetch(client: Client, namespace: str, references: Iterable[Reference]) -> Sources:
    """Read ConfigMaps and Secrets from the API.

    Raises:
        ApiError: The API server cannot be reached or refuses.
    """
    unique = list(dict.fromkeys(references))
    found = await asyncio.gather(*(_get(client, namespace, each) for each in unique))
    return Sources(namespace, dict(zip(unique, found, strict=True)))


async def _get(client: Client, namespace: str, reference: Reference) -> dict[str, Any] | None:
    if not reference.name:
        return None
    resource = CONFIG_MAPS if reference.kind == "ConfigMap" else SECRETS
    try:
        return await client.get(resource, reference.name, namespace)
    except NotFoundError:
        return None


class SourceWatch:
    """Notifies pods of changes of the ConfigMaps and Secrets they use."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, Reference], set[asyncio.Event]] = {}

    def changed(self, namespace: str, reference: Reference) -> None:
        """Report that an object was created, changed or deleted."""
        for event in self._waiting.get((namespace, reference), ()):
            event.set()

    async def wait(
        self, namespace: str, references: Iterable[Reference], longest: float | None
    ) -> None:
        """Wait until one of some objects changes, or for `longest` seconds."""
        with self.watching(namespace, references) as event, suppress(TimeoutError):
            async with asyncio.timeout(longest):
                await event.wait()

    @contextmanager
    def watching(self, namespace: str, references: Iterable[Reference]) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever one of some objects changes; the caller clears it."""
        event = asyncio.Event()
        keys = [(namespace, reference) for reference in references]
        for key in keys:
            self._waiting.setdefault(key, set()).add(event)
        try:
            yield event
        finally:
            for key in keys:
                self._waiting[key].discard(event)
                if not self._waiting[key]:
                    del self._waiting[key]
