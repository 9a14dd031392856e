"""The subresource ``pods/NAME/portforward``: protocol negotiation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.http.messages import is_websocket, offered, open_websocket
from traincrew.local.apiserver.http.pods import check_host, node_of, pod_of
from traincrew.local.apiserver.http.spdy import (
    Connection,
    SpdyError,
    UpgradedConnection,
    WebSocketTransport,
    asks_for_spdy,
    negotiate,
)
from traincrew.local.apiserver.values.errors import bad_request

from .channels import serve_channels
from .forwarding import Forwarder, PairedStreams

if TYPE_CHECKING:
    from aiohttp import web

    from traincrew.local.apiserver.http.responder import Responder
    from traincrew.local.apiserver.http.spdy import Transport
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.requests import Call

__all__ = ["serve_portforward"]

_PROTOCOL = "portforward.k8s.io"
_TUNNEL = f"SPDY/3.1+{_PROTOCOL}"
_CHANNELS = "v4.channel.k8s.io"
_MAX_PORTS = 100


async def serve_portforward(
    responder: Responder,
    call: Call,
    resource: ResourceType,
    request: web.BaseRequest,
    *_: Any,
) -> web.StreamResponse:
    """Connect a client to ports of a pod.

    kubectl up to 1.30 upgrades the connection to SPDY; newer versions tunnel SPDY through a
    websocket; the Python client uses two channels of a websocket for each port.

    Raises:
        StatusError: 400 for a pod without a node, or a client that supports none of these.
    """
    pod = pod_of(responder, call, resource)
    check_host(pod)
    forwarder = Forwarder(node_of(responder), pod)
    try:
        if is_websocket(request):
            return await _over_websocket(call, request, forwarder)
        if asks_for_spdy(request):
            return await _over_spdy(request, forwarder)
        raise bad_request("Upgrade request required")
    finally:
        await forwarder.close()


async def _over_spdy(request: web.BaseRequest, forwarder: Forwarder) -> web.StreamResponse:
    _, headers = negotiate(request, [_PROTOCOL])
    upgraded = UpgradedConnection(request, headers)
    await upgraded.open()
    await _serve(upgraded, forwarder)
    return upgraded.response


async def _over_websocket(
    call: Call, request: web.BaseRequest, forwarder: Forwarder
) -> web.StreamResponse:
    wanted = offered(request, "Sec-WebSocket-Protocol")
    if _TUNNEL in wanted:
        tunnel = await open_websocket(request, _TUNNEL)
        await _serve(WebSocketTransport(tunnel), forwarder)
        await tunnel.close()
        return tunnel
    if wanted and _CHANNELS not in wanted:
        raise bad_request(
            f"unsupported websocket protocol {', '.join(wanted)!r}: use {_TUNNEL}, {_CHANNELS}"
        )
    ports = _ports(call)
    socket = await open_websocket(request, _CHANNELS)
    await serve_channels(socket, forwarder, ports)
    return socket


async def _serve(transport: Transport, forwarder: Forwarder) -> None:
    pairs = PairedStreams(forwarder)
    try:
        await Connection(transport).serve(pairs.accept)
    except (SpdyError, ConnectionError):
        return  # there is no client left to send an error to
    finally:
        pairs.close()


def _ports(call: Call) -> list[int]:
    texts = [each for value in call.query.get("ports", []) for each in value.split(",")]
    if not texts:
        raise bad_request('query parameter "ports" is required')
    if len(texts) > _MAX_PORTS:
        raise bad_request(f"at most {_MAX_PORTS} ports can be forwarded at a time")
    ports = []
    for text in texts:
        if not (text.isdecimal() and 0 < int(text) < 65536):
            raise bad_request(f'unable to parse "{text}" as a port')
        ports.append(int(text))
    return ports
