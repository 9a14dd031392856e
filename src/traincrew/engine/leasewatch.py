"""Hear at once when a Lease changes.

Who only asks now and then learns of a renewal up to that much later, and of a release, too; so a
standby that polls every two seconds takes over four seconds after the Lease has run out. A watch of
the one object tells within milliseconds, and costs the server less than the questions.

What is heard only says when it is worth to try. Whoever acts on it reads the Lease again first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.engine.errors import ApiError, UnreachableError
from traincrew.engine.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.client import Client


async def follow_lease(
    client: Client,
    namespace: str,
    name: str,
    version: str,
    *,
    silence: float,
    opened: Callable[[], None],
    changed: Callable[[dict[str, Any]], None],
) -> None:
    """Report every change of one Lease, until the watch ends.

    Needs the verb ``watch``; a Role may restrict it to the name of the Lease.

    Args:
        client: The API server.
        namespace: Of the Lease.
        name: Of the Lease.
        version: The ``resourceVersion`` after which changes are reported.
        silence: Seconds without any change after which the watch counts as dead.
        opened: Called once the server has accepted the watch.
        changed: Called with the Lease as it is now. That it was deleted is not reported: its holder
            goes on and makes it again.

    Raises:
        ApiError: The server refused, the version is too old, or the connection broke.
    """
    params = {
        "watch": "true",
        "fieldSelector": f"metadata.name={name}",
        "resourceVersion": version,
    }
    rest = b""
    async with client.stream(LEASES.path(namespace), params, read_timeout=silence) as chunks:
        opened()
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line and (lease := _lease(line)) is not None:
                    changed(lease)


def _lease(line: bytes) -> dict[str, Any] | None:
    try:
        event = msgspec.json.decode(line)
        kind, lease = event["type"], event["object"]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise UnreachableError(f"a watch sent something that is no event: {error}") from error
    if kind == "ERROR":
        raise ApiError.from_status(lease.get("code") or 500, lease)
    return lease if kind in {"ADDED", "MODIFIED"} else None
