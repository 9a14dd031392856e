"""API discovery: which resources the server has, in which versions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.engine.errors import ServerError
from traincrew.engine.resources import EVENTS, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from traincrew.engine.client import Client

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Served(Struct, frozen=True):
    """One resource in one served version.

    Attributes:
        resource: The resource.
        verbs: The verbs it supports.
    """

    resource: Resource
    verbs: frozenset[str]


class Discovery:
    """A discovery response with everything that the server serves.

    Args:
        served: Every resource in every version, versions of a group in the server's order.
        failed: Groups and versions whose discovery failed. Their resources are unknown, so nothing
            may be concluded from their absence.
    """

    def __init__(
        self, served: Iterable[Served] = (), failed: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._served = tuple(served)
        self.failed = frozenset(failed)
        self._resources = {each.resource for each in self._served}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        for each in self._served:
            resource = each.resource
            self._by_kind.setdefault((resource.api_version, resource.kind), resource)

    @property
    def kinds(self) -> AbstractSet[tuple[str, str]]:
        """The apiVersion and kind of every served resource."""
        return self._by_kind.keys()

    def find(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind in exactly this version, like upstream's RESTMapper."""
        return self._by_kind.get((api_version, kind))

    def preferred(self, verbs: AbstractSet[str]) -> list[Resource]:
        """Return every resource once, in its group's first version that has it with these verbs.

        A group's preferred version need not have all of the group's resources
        (`ServerPreferredResources` of client-go).
        """
        found: dict[tuple[str, str], Resource] = {}
        for each in self._served:
            if each.verbs >= verbs:
                found.setdefault((each.resource.group, each.resource.plural), each.resource)
        return list(found.values())

    def serves(self, resource: Resource) -> bool:
        """Return whether the resource is served in its version, as far as is known."""
        return resource in self._resources or (resource.group, resource.version) in self.failed


async def discover(client: Client) -> Discovery:
    """Request the server's discovery documents.

    Raises:
        ApiError: The server refused, or its response was not understood.
    """
    core, groups = await asyncio.gather(
        client.request_object("GET", "/api", accept=_AGGREGATED),
        client.request_object("GET", "/apis", accept=_AGGREGATED),
    )
    return parse(core, groups)


def parse(*documents: dict[str, Any]) -> Discovery:
    """Read `APIGroupDiscoveryList` documents.

    Raises:
        ServerError: A document is of another kind.
    """
    served: list[Served] = []
    failed: list[tuple[str, str]] = []
    for document in documents:
        if document.get("kind") != "APIGroupDiscoveryList":
            raise ServerError(f"discovery answered with {document.get('kind') or 'no kind'}")
        for group in document.get("items") or ():
            name = group["metadata"].get("name", "")
            for version in group.get("versions") or ():
                if version.get("freshness") == "Stale":
                    failed.append((name, version["version"]))
                else:
                    served += _served(name, version)
    return Discovery(served, failed)


def _served(group: str, version: dict[str, Any]) -> Iterable[Served]:
    for item in version.get("resources") or ():
        resource = Resource(
            group,
            version["version"],
            item["resource"],
            item["responseKind"]["kind"],
            item["scope"] == "Namespaced",
        )
        yield Served(resource, frozenset(item.get("verbs") or ()))


def is_collected(resource: Resource) -> bool:
    """Return whether the resource is garbage collected; events are not, since they expire."""
    return (resource.group, resource.plural) not in {
        ("", EVENTS.plural),
        ("events.k8s.io", EVENTS.plural),
    }
