"""The client of webhooks: a review over HTTPS to a URL or to a Service's pod.

Rules: ``apiserver/pkg/util/webhook/client.go`` and ``client-go/rest`` of Kubernetes.
"""

from __future__ import annotations

import base64
import binascii
import posixpath
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import aiohttp

from traincrew.local.apiserver.reads.endpoints import SchemeNamePort, service_endpoint
from traincrew.local.apiserver.values.errors import StatusError, not_found

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["WebhookError", "post_review"]

_MAX_RESPONSE_BYTES = 8 * 1024 * 1024


class WebhookError(Exception):
    """A webhook could not be called, or its response is invalid; the message gives the reason."""


class _Destination(NamedTuple):
    """The location of a webhook: its URL for messages, its actual address, its TLS server name."""

    url: str
    address: str
    server_name: str


async def post_review(
    config: Document, review: Document, storage: Storage, *, seconds: int
) -> bytes:
    """Send a review to a webhook, and return the body of its answer.

    Args:
        config: The ``clientConfig``: a URL or a Service, and a CA bundle.
        review: The review, of any kind.
        storage: Holds Services and their endpoints.
        seconds: After which the call fails.

    Raises:
        WebhookError: It could not be called, or did not answer with 200.
    """
    url = _url(config)
    query = f"timeout={seconds}s"
    try:
        destination = _destination(config, url, storage)
        tls = _tls_context(str(config.get("caBundle") or ""))
        return await _post(destination, query, review, tls, seconds)
    except TimeoutError:  # Go's words, which clients match
        raise WebhookError(f'Post "{url}?{query}": context deadline exceeded') from None
    except StatusError as error:
        raise WebhookError(f'Post "{url}?{query}": {error.message}') from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise WebhookError(f'Post "{url}?{query}": {error}') from None


def _url(config: Document) -> str:
    """Return the URL of a webhook as it is requested and as messages show it.

    Raises:
        WebhookError: It is not https.
    """
    if url := config.get("url"):
        parts = urlsplit(str(url))
        if parts.scheme != "https" or not parts.hostname:
            raise WebhookError(f'clientConfig.url "{url}" is not https://HOST')
        return f"https://{parts.netloc}{_cleaned(unquote(parts.path))}"
    service = config.get("service") or {}
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    path = _cleaned(str(service.get("path") or ""))
    return f"https://{host}:{int(service.get('port') or 443)}{path}"


def _destination(config: Document, url: str, storage: Storage) -> _Destination:
    """Return where to send a review: a Service's is one of its endpoints.

    Raises:
        StatusError: The Service does not exist, or has no endpoint.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if config.get("url"):
        return _Destination(url, url, host)
    service = config.get("service") or {}
    name, namespace = str(service.get("name", "")), str(service.get("namespace", ""))
    entry = storage.get("services", (namespace, name))
    if entry is None:
        raise not_found("service", "", name)
    port = str(service.get("port") or 443)
    found = service_endpoint(
        storage, namespace, SchemeNamePort("https", name, port), entry.obj.get("spec") or {}
    )
    return _Destination(url, f"https://{found.address}:{found.port}{parts.path}", host)


def _cleaned(path: str) -> str:
    """Return a path as Go's client requests it, encoded (``path.Join`` in ``client-go/rest``).

    It has no empty segments, no ``.`` and ``..``, and no slash at its end.
    """
    return quote("/" + posixpath.normpath("/" + path.strip("/")).lstrip("/"))


@lru_cache(maxsize=32)
def _tls_context(bundle: str) -> ssl.SSLContext:
    """Return a TLS context that trusts a CA bundle (base64 of PEM), or else the system's CAs.

    The bundle may be the server's own certificate, as for Go's ``x509``, even if another CA has
    signed it.

    Raises:
        ValueError: It is not a CA bundle.
    """
    if not bundle:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
    except (binascii.Error, ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"caBundle: {error}") from None
    return context


async def _post(
    destination: _Destination, query: str, review: Document, tls: ssl.SSLContext, seconds: int
) -> bytes:
    timeout = aiohttp.ClientTimeout(total=seconds)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(
            f"{destination.address}?{query}",
            json=review,
            ssl=tls,
            server_hostname=destination.server_name,
            headers={"Host": urlsplit(destination.url).netloc, "Accept": "application/json"},
            allow_redirects=False,
        ) as answer,
    ):
        body = bytearray()
        async for chunk in answer.content.iter_chunked(64 * 1024):
            body += chunk
            if len(body) > _MAX_RESPONSE_BYTES:
                raise ValueError(f"the answer is longer than {_MAX_RESPONSE_BYTES} bytes")
        if answer.status != 200:
            raise ValueError(f"the answer has status {answer.status}")
        return bytes(body)
