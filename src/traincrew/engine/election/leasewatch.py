"""Watch a Lease for changes.

A standby that polls sees a renewal or a release up to one period late: polling every two seconds,
it takes over four seconds after the Lease has expired. A watch of the one object reports changes
within milliseconds, and costs the server less than polling.

A change only indicates when an attempt is worthwhile. The elector rereads the Lease before it acts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.client import line_batches
from traincrew.engine.decoding import UndecodableError, decode_json
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
        namespace: Namespace of the Lease.
        name: Name of the Lease.
        version: The ``resourceVersion`` after which changes are reported.
        silence: Seconds without any change after which the watch counts as dead.
        opened: Called once the server has accepted the watch.
        changed: Called with the new state of the Lease. A deletion is not reported: the holder
            keeps acting and recreates the Lease.

    Raises:
        ApiError: The server refused, the version is too old, or the connection broke.
    """
    params = {
        "watch": "true",
        "fieldSelector": f"metadata.name={name}",
        "resourceVersion": version,
    }
    async with client.stream(LEASES.path(namespace), params, read_timeout=silence) as chunks:
        opened()
        async for lines in line_batches(chunks):
            for line in lines:
                if line and (lease := _lease(line)) is not None:
                    changed(lease)


def _lease(line: bytes) -> dict[str, Any] | None:
    try:
        event = decode_json(line)
        kind, lease = event["type"], event["object"]
    except (UndecodableError, KeyError, TypeError) as error:
        raise UnreachableError(f"a watch sent something that is not an event: {error}") from error
    if kind == "ERROR":
        raise ApiError.from_status(lease.get("code") or 500, lease)
    return lease if kind in {"ADDED", "MODIFIED"} else None
