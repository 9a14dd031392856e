"""``…/pods/NAME/proxy/…`` and ``…/services/NAME/proxy/…``: HTTP requests to what runs in a pod.

A pod is named ``[SCHEME:]NAME[:PORT]``, a Service likewise with the name or number of one of its
ports. The answer passes through unchanged, but for links in HTML, which lead back through here.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

import aiohttp
from aiohttp import web

from .errors import StatusError, bad_request, method_not_allowed, no_such_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .storage import Storage
    from .verbs import Verbs

__all__ = ["ProxyPath", "proxy_path", "serve_proxy"]

Document = dict[str, Any]

_PROXIED = {"pods", "services"}
# RFC 9110, 7.6.1; and what belongs to the connection with this server.
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OURS = _HOP_BY_HOP | {"authorization", "host", "content-length"}
_CHUNK = 64 * 1024
_LONGEST_PAGE = 8 * 1024 * 1024
_LINK = re.compile(
    rb"""(\s(?:href|src|action)\s*=\s*["'])(/[^"'/][^"']*|/)(?=["'])""", re.IGNORECASE
)


class ProxyPath(NamedTuple):
    """What a path with ``proxy`` in it names; `rest` is the path there, with its first slash."""

    plural: str
    namespace: str
    name: str
    rest: str


class _Wanted(NamedTuple):
    """``[SCHEME:]NAME[:PORT]``, taken apart; an empty port is none."""

    scheme: str
    name: str
    port: str


class _Place(NamedTuple):
    scheme: str
    address: str
    port: int


def proxy_path(segments: list[str]) -> ProxyPath | None:
    """Split a path; None when it is not one of these."""
    match segments:
        case ["api", "v1", "namespaces", namespace, plural, name, "proxy", *rest] if (
            plural in _PROXIED
        ):
            return ProxyPath(plural, namespace, name, "".join(f"/{each}" for each in rest))
    return None


async def serve_proxy(
    verbs: Verbs, path: ProxyPath, request: web.BaseRequest, query: str, prefix: str
) -> web.StreamResponse:
    """Pass a request on and the answer back.

    Args:
        verbs: where pods and Services are.
        path: what is meant.
        request: as it came.
        query: of the request, raw.
        prefix: path all others are below.

    Raises:
        StatusError: 404 without the object, 400 for a port it does not have, 503 when nobody
            answers there.
    """
    if request.method in {"CONNECT", "TRACE"}:
        raise method_not_allowed(f"{path.plural}/proxy", "", request.method)
    place = _place(verbs, path)
    base = f"{prefix}/api/v1/namespaces/{path.namespace}/{path.plural}/{path.name}/proxy"
    query = f"?{query}" if query else ""
    if not path.rest and request.method in {"GET", "HEAD"}:
        # Links of the page would lead somewhere else without the slash.
        return web.Response(status=301, headers={"Location": f"{base}/{query}"})
    rest = quote(path.rest or "/", safe="/:@!$&()*+,;=~")
    url = f"{place.scheme}://{place.address}:{place.port}{rest}{query}"
    headers = {key: value for key, value in request.headers.items() if key.lower() not in _OURS}
    body = await request.read() if request.body_exists else None
    # What is in the pod has whatever certificate it has: nobody could know it beforehand.
    connector = aiohttp.TCPConnector(ssl=False)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
            session.request(
                request.method, url, headers=headers, data=body, allow_redirects=False
            ) as answer,
        ):
            return await _pass_back(answer, request, base)
    except aiohttp.ClientError as error:
        message = f"error trying to reach service: {error}"
        raise StatusError(503, "ServiceUnavailable", message) from None


async def _pass_back(
    answer: aiohttp.ClientResponse, request: web.BaseRequest, base: str
) -> web.StreamResponse:
    headers = [
        (key, value) for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP
    ]
    headers = [
        (key, _through(value, answer, base) if key.lower() == "location" else value)
        for key, value in headers
    ]
    plain = "content-encoding" not in {key.lower() for key, _ in headers}
    if plain and answer.content_type == "text/html" and request.method != "HEAD":
        page = await answer.content.read(_LONGEST_PAGE)
        page = _LINK.sub(rb"\g<1>" + base.encode() + rb"\g<2>", page)
        kept = [pair for pair in headers if pair[0].lower() != "content-length"]
        return web.Response(status=answer.status, body=page, headers=_multi(kept))
    response = web.StreamResponse(status=answer.status, headers=_multi(headers))
    await response.prepare(request)
    async for chunk in answer.content.iter_chunked(_CHUNK):
        await response.write(chunk)
    await response.write_eof()
    return response


def _multi(pairs: list[tuple[str, str]]) -> Mapping[str, str]:
    from multidict import CIMultiDict

    return CIMultiDict(pairs)


def _through(location: str, answer: aiohttp.ClientResponse, base: str) -> str:
    """Where a redirect leads when it stays within the pod; others are left alone."""
    target = urlsplit(location)
    if target.netloc and target.netloc != f"{answer.url.host}:{answer.url.port}":
        return location
    tail = (f"?{target.query}" if target.query else "") + (
        f"#{target.fragment}" if target.fragment else ""
    )
    return base + target.path + tail if target.path.startswith("/") else location


def _place(verbs: Verbs, path: ProxyPath) -> _Place:
    wanted = _split(path.name)
    resource = verbs.registry.find("", "v1", path.plural)
    assert resource is not None
    document = verbs.find(resource, path.namespace, wanted.name).obj
    if path.plural == "services":
        return _of_service(verbs.storage, path.namespace, wanted, document["spec"])
    address = document.get("status", {}).get("podIP")
    if not address:
        raise bad_request(f"pod {wanted.name} has no address yet")
    return _Place(wanted.scheme, address, _of_pod(document["spec"], wanted.port))


def _split(text: str) -> _Wanted:
    parts = text.split(":")
    if len(parts) == 3 and parts[0] in {"", "http", "https"}:
        return _Wanted(parts[0] or "http", parts[1], parts[2])
    if len(parts) <= 2:
        return _Wanted("http", parts[0], parts[1] if len(parts) == 2 else "")
    raise no_such_path()


def _of_pod(spec: Document, port: str) -> int:
    """The port meant: a number, or the first one a container declares."""
    if port.isdecimal():
        return int(port)
    for container in spec["containers"]:
        for each in container.get("ports") or ():
            if port in {"", each.get("name")}:
                return int(each["containerPort"])
    if port:
        raise bad_request(f'no container declares a port named "{port}"')
    return 80


def _of_service(storage: Storage, namespace: str, wanted: _Wanted, spec: Document) -> _Place:
    """A ready address behind a Service, any of them."""
    _, name, port = wanted
    ports = spec.get("ports") or []
    meant = [
        each for each in ports if not port or port in {each.get("name"), str(each.get("port"))}
    ]
    if not meant or (not port and len(ports) != 1):
        raise bad_request(f'the service "{name}" has no port "{port}"')
    entry = storage.get("endpoints", (namespace, name))
    for subset in (entry.obj.get("subsets") or ()) if entry is not None else ():
        for each in subset.get("ports") or ():
            if each.get("name", "") == meant[0].get("name", "") and subset.get("addresses"):
                address = random.choice(subset["addresses"])["ip"]  # noqa: S311 - no secret
                return _Place(wanted.scheme, address, each["port"])
    raise StatusError(
        503, "ServiceUnavailable", f'no endpoints available for service "{namespace}/{name}"'
    )
