"""The requests of each user, from the API server's audit log."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class _User(Struct):
    username: str = ""


class _Object(Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""


class _Response(Struct):
    code: int = 0


class Entry(Struct, rename="camel"):
    """One request.

    Attributes:
        verb: Kubernetes verb: ``create``, ``patch``, ``watch`` …
        user: The user who sent it.
    """

    verb: str
    user: _User
    request_received_timestamp: str
    object_ref: _Object = field(default_factory=_Object)
    response_status: _Response = field(default_factory=_Response)

    @property
    def what(self) -> str:
        """Verb and resource: ``patch chainerjobs/status``."""
        parts = (self.object_ref.resource, self.object_ref.subresource)
        return f"{self.verb} {'/'.join(part for part in parts if part)}"

    @property
    def accepted(self) -> bool:
        """Whether it succeeded."""
        return 200 <= self.response_status.code < 300


def read(path: Path) -> Iterator[Entry]:
    """Return all requests, in the order of their completion."""
    decode = msgspec.json.Decoder(Entry).decode
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield decode(line)


def since(entries: Iterator[Entry], moment: datetime) -> Iterator[Entry]:
    """Return the requests that arrived at this moment or later."""
    for entry in entries:
        if datetime.fromisoformat(entry.request_received_timestamp) >= moment:
            yield entry


def writes(entries: Iterator[Entry], user: str, namespace: str) -> tuple[Counter[str], int]:
    """Return a user's writes in a namespace by verb and resource, and how many were refused."""
    counts: Counter[str] = Counter()
    refused = 0
    for entry in entries:
        if (
            entry.user.username == user
            and entry.object_ref.namespace == namespace
            and entry.verb in WRITES
        ):
            counts[entry.what] += entry.accepted
            refused += not entry.accepted
    return counts, refused
