"""What clients have asked a server for: who wrote what.

writes = cluster.audit.writes("deployments", client="my-controller")
assert [each.verb for each in writes] == ["create"]
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.local.apiserver.authorization import request_attributes
from traincrew.local.apiserver.requests import split_path

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.faults import AuditRecord

__all__ = ["Audit", "Request"]

MOST_REQUESTS = 10_000
MOST_BYTES = 64 * 1024 * 1024
"""Of answers to writes. When there are more requests or bytes, the oldest requests are dropped."""

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Request(msgspec.Struct, frozen=True):
    """A finished request.

    Attributes:
        verb: as in a Role: ``get``, ``list``, ``watch``, ``create``, ``update``, ``patch``,
            ``delete``, ``deletecollection``.
        group: the API group; empty for the core group.
        resource: the plural name; empty for other paths.
        subresource: such as ``status``.
        namespace: empty if the path has none.
        name: that of what was created, or of the path; empty if that has none.
        user: who sent it.
        client: its user agent, as in ``kubectl/v1.36.1 (linux/amd64)``.
        code: the status code; 0 if the connection was cut.
        path: with the query.
        answer: the object after the write (JSON); empty for reads and failures.
    """

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    client: str
    code: int
    path: str
    answer: bytes = b""

    @property
    def is_write(self) -> bool:
        """Whether it has changed something: a write that succeeded, and no dry run."""
        done = 200 <= self.code < 300 and "dryRun=" not in self.path
        return done and self.verb in _WRITES

    @property
    def object(self) -> dict[str, Any] | None:
        """What the server answered to a write, which is the object in most cases."""
        if not self.answer.startswith(b"{"):
            return None
        decoded: dict[str, Any] = msgspec.json.decode(self.answer)
        return decoded


class _Metadata(msgspec.Struct):
    name: str = ""


class _Created(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def read(record: AuditRecord) -> Request:
    """Return what a request was about."""
    segments, query = split_path(record.path)
    found = request_attributes(record.method, segments, query)
    if found.verb == "create" and not found.name and record.answer.startswith(b"{"):
        created = msgspec.json.decode(record.answer, type=_Created)
        found = found._replace(name=created.metadata.name)
    return Request(
        found.verb,
        found.group,
        found.resource,
        found.subresource,
        found.namespace,
        found.name,
        record.user,
        record.user_agent,
        record.code,
        record.path,
        record.answer,
    )


def concerns(group: str, resource: str, subresource: str, wanted: str | None) -> bool:
    """Return whether a request is about a resource.

    Args:
        group: the request's API group.
        resource: its plural name.
        subresource: its subresource; empty without one.
        wanted: ``pods``, ``pods/status``, ``deployments.apps``; None for anything. Without a
            subresource it means all of them.
    """
    if wanted is None:
        return True
    name, _, part = wanted.partition("/")
    if part and part != subresource:
        return False
    return name in {resource, f"{resource}.{group}"} and bool(resource)


class Audit:
    """The finished requests of a server, oldest first; at most 10,000 of them."""

    def __init__(self) -> None:
        self._records: deque[AuditRecord] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def record(self, record: AuditRecord) -> None:
        """Add a request; called by the server."""
        with self._lock:
            self._records.append(record)
            self._bytes += len(record.answer)
            while len(self._records) > MOST_REQUESTS or self._bytes > MOST_BYTES:
                self._bytes -= len(self._records.popleft().answer)

    def requests(
        self,
        resource: str | None = None,
        *,
        verb: str | None = None,
        namespace: str | None = None,
        user: str | None = None,
        client: str | None = None,
    ) -> list[Request]:
        """Return requests, whatever became of them.

        Args:
            resource: ``pods``, ``pods/status``, ``deployments.apps``; a resource without
                subresource means all of them.
            verb: as in a Role.
            namespace: that of the path.
            user: name of the user.
            client: how its user agent begins, as in ``kubectl``.
        """
        with self._lock:
            records = list(self._records)
        return [
            each
            for each in map(read, records)
            if concerns(each.group, each.resource, each.subresource, resource)
            and verb in {None, each.verb}
            and namespace in {None, each.namespace}
            and user in {None, each.user}
            and each.client.startswith(client or "")
        ]

    def writes(
        self,
        resource: str | None = None,
        *,
        verb: str | None = None,
        namespace: str | None = None,
        user: str | None = None,
        client: str | None = None,
    ) -> list[Request]:
        """Return the requests that have changed something; the arguments are those of `requests`.

        Reviews, evictions and the like count as well: they are created.
        """
        found = self.requests(resource, verb=verb, namespace=namespace, user=user, client=client)
        return [each for each in found if each.is_write]

    def clear(self) -> None:
        """Forget all requests."""
        with self._lock:
            self._records.clear()
            self._bytes = 0
