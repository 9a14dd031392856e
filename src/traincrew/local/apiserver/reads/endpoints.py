"""The endpoints behind a Service."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.values.errors import StatusError, bad_request

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Endpoint", "SchemeNamePort", "service_endpoint"]


class SchemeNamePort(NamedTuple):
    """``[SCHEME:]NAME[:PORT]``, split; the port is empty if there is none."""

    scheme: str
    name: str
    port: str


class Endpoint(NamedTuple):
    """A scheme, address and port on which a program in a pod listens."""

    scheme: str
    address: str
    port: int


def service_endpoint(
    storage: Storage, namespace: str, wanted: SchemeNamePort, spec: Document
) -> Endpoint:
    """Return any of the ready addresses behind a Service.

    Raises:
        StatusError: 400 for a port that the Service does not have, 503 when no endpoint is ready.
    """
    _, name, port = wanted
    ports = spec.get("ports") or []
    matching = [
        each for each in ports if not port or port in {each.get("name"), str(each.get("port"))}
    ]
    if not matching or (not port and len(ports) != 1):
        raise bad_request(f'the service "{name}" has no port "{port}"')
    entry = storage.get("endpoints", (namespace, name))
    for subset in (entry.obj.get("subsets") or ()) if entry is not None else ():
        for each in subset.get("ports") or ():
            if each.get("name", "") == matching[0].get("name", "") and subset.get("addresses"):
                address = random.choice(subset["addresses"])["ip"]  # noqa: S311 - no secret
                return Endpoint(wanted.scheme, address, each["port"])
    raise StatusError(
        503, "ServiceUnavailable", f'no endpoints available for service "{namespace}/{name}"'
    )
