"""The upgrade of an HTTP request to SPDY: who asks for it, and for which protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.http.messages import offered
from traincrew.local.apiserver.values.errors import StatusError, bad_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

__all__ = ["asks_for_spdy", "negotiate"]

_HEADER = "X-Stream-Protocol-Version"


def asks_for_spdy(request: web.BaseRequest) -> bool:
    """Return whether a request asks for an upgrade to SPDY/3.1."""
    return request.headers.get("Upgrade", "").lower() == "spdy/3.1"


def negotiate(request: web.BaseRequest, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Choose the first protocol of the client's that the server knows, as upstream.

    Returns:
        The protocol, and the headers of the response 101.

    Raises:
        StatusError: 400 for a client that names no protocol, 403 without a common one.
    """
    wanted = offered(request, _HEADER)
    if not wanted:
        raise bad_request(f"unable to upgrade: {_HEADER} is required")
    for protocol in wanted:
        if protocol in known:
            return protocol, {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", _HEADER: protocol}
    client, server = " ".join(wanted[:_MAX_NAMED]), " ".join(known)
    raise StatusError(
        403,
        "Forbidden",
        "unable to upgrade: unable to negotiate protocol: "
        f"client supports [{client}], server accepts [{server}]",
    )


_MAX_NAMED = 10
