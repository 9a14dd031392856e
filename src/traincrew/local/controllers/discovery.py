"""What kinds of objects the server has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.engine.resources import EVENTS, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.client import Client

_NEEDED = {"list", "watch", "delete"}


async def discover(client: Client) -> list[Resource]:
    """Every resource that can be listed, watched and deleted, in its preferred version.

    Raises:
        ApiError: The server refused.
    """
    core, groups = await asyncio.gather(_get(client, "/api/v1"), _get(client, "/apis"))
    versions = [
        (group["name"], group["preferredVersion"]["version"]) for group in groups.get("groups", ())
    ]
    lists = await asyncio.gather(
        *(_get(client, f"/apis/{group}/{version}") for group, version in versions)
    )
    found = list(_resources("", "v1", core))
    for (group, version), document in zip(versions, lists, strict=True):
        found += _resources(group, version, document)
    return found


def _resources(group: str, version: str, document: dict[str, Any]) -> Iterable[Resource]:
    for item in document.get("resources") or ():
        if "/" not in item["name"] and set(item.get("verbs") or ()) >= _NEEDED:
            yield Resource(group, version, item["name"], item["kind"], bool(item["namespaced"]))


def is_collected(resource: Resource) -> bool:
    """Whether garbage collection cares: not about events, which expire by themselves."""
    return (resource.group, resource.plural) not in {
        ("", EVENTS.plural),
        ("events.k8s.io", EVENTS.plural),
    }


async def _get(client: Client, path: str) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode(await client.request("GET", path))
    return document
