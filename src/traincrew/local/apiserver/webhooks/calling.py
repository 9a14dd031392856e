"""One call of one webhook: a review over HTTPS, and its response."""

from __future__ import annotations

import base64
import binascii
import json
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import aiohttp

from traincrew.local.apiserver.patch import PatchError, json_patch
from traincrew.local.apiserver.reads.endpoints import SchemeNamePort, service_endpoint
from traincrew.local.apiserver.values.errors import StatusError, not_found

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

    from .matching import Webhook

__all__ = ["MAX_TIMEOUT_SECONDS", "Reply", "WebhookError", "call_webhook", "post_review"]

_VERSIONS = ("v1", "v1beta1")
_MAX_RESPONSE_BYTES = 8 * 1024 * 1024
MAX_TIMEOUT_SECONDS = 30
"""Upper limit of ``timeoutSeconds``, in seconds."""
_MAX_WARNINGS = 20
_MAX_WARNING_LENGTH = 256


class WebhookError(Exception):
    """A webhook could not be called, or its response is invalid; the message gives the reason."""


class Reply(NamedTuple):
    """The response of a webhook.

    Attributes:
        allowed: Whether the write is allowed.
        status: The reason of a denial, if given.
        patch: JSON patch operations.
        warnings: Warnings for the client.
    """

    allowed: bool
    status: Document
    patch: list[Document]
    warnings: list[str]

    def applied(self, document: Document) -> Document:
        """Return the object with the patch applied.

        Raises:
            WebhookError: The patch cannot be applied, or changes the identity of the object.
        """
        try:
            patched = json_patch(document, self.patch)
        except (PatchError, AttributeError, LookupError, RecursionError, TypeError) as error:
            raise WebhookError(f"its patch cannot be applied: {error}") from None
        metadata = patched.get("metadata") if isinstance(patched, dict) else None
        if not isinstance(metadata, dict):
            raise WebhookError("its patch leaves no object")
        for field in ("apiVersion", "kind"):
            if patched.get(field) != document.get(field):
                raise WebhookError(f"its patch changes {field}")
        for field in ("name", "namespace", "uid"):
            if metadata.get(field) != document["metadata"].get(field):
                raise WebhookError(f"its patch changes metadata.{field}")
        return dict(patched)


class _Destination(NamedTuple):
    """The location of a webhook: its URL for messages, its actual address, its TLS server name."""

    url: str
    address: str
    server_name: str


async def call_webhook(webhook: Webhook, request: Document, storage: Storage) -> Reply:
    """Call a webhook.

    Args:
        webhook: The webhook to call.
        request: The request of the AdmissionReview, with its UID.
        storage: Holds Services and their endpoints.

    Raises:
        WebhookError: It could not be called, or its response is invalid.
    """
    known = [
        each for each in webhook.spec.get("admissionReviewVersions") or () if each in _VERSIONS
    ]
    if not known:
        raise WebhookError("it accepts none of the versions v1, v1beta1 of AdmissionReview")
    version = f"admission.k8s.io/{known[0]}"
    review = {"kind": "AdmissionReview", "apiVersion": version, "request": request}
    seconds = min(max(int(webhook.spec.get("timeoutSeconds") or 10), 1), MAX_TIMEOUT_SECONDS)
    config = webhook.spec.get("clientConfig") or {}
    try:
        body = await post_review(config, review, seconds, storage)
    except WebhookError as error:
        raise WebhookError(f"failed to call webhook: {error}") from None
    return _reply(body, version, request["uid"])


async def post_review(config: Document, review: Document, seconds: int, storage: Storage) -> bytes:
    """Send a review to a webhook.

    Args:
        config: Its ``clientConfig``.
        review: The review.
        seconds: How long the webhook may take.
        storage: Holds Services and their endpoints.

    Returns:
        The body of the response.

    Raises:
        WebhookError: The call failed; the message has the words of Go's client, which people match.
    """
    url = _url(config)
    query = f"timeout={seconds}s"
    try:
        destination = _destination(config, url, storage)
        tls = _tls_context(str(config.get("caBundle") or ""))
        return await _post(destination, query, review, tls, seconds)
    except TimeoutError:
        raise WebhookError(f'Post "{url}?{query}": context deadline exceeded') from None
    except StatusError as error:
        raise WebhookError(f'Post "{url}?{query}": {error.message}') from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise WebhookError(f'Post "{url}?{query}": {error}') from None


def _url(config: Document) -> str:
    """Return the URL of a webhook, as messages show it.

    Raises:
        WebhookError: It is not https.
    """
    if url := config.get("url"):
        parts = urlsplit(str(url))
        if parts.scheme != "https" or not parts.hostname:
            raise WebhookError(f'clientConfig.url "{url}" is not https://HOST')
        return str(url)
    service = config.get("service") or {}
    path = "/" + str(service.get("path") or "").lstrip("/")
    host = f"{service.get('name', '')}.{service.get('namespace', '')}.svc"
    return f"https://{host}:{int(service.get('port') or 443)}{path}"


def _destination(config: Document, url: str, storage: Storage) -> _Destination:
    """Return where to send a review: a Service's is one of its endpoints.

    Raises:
        StatusError: The Service does not exist, or has no endpoint.
    """
    host = urlsplit(url).hostname or ""
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
    path = urlsplit(url).path
    return _Destination(url, f"https://{found.address}:{found.port}{path}", host)


@lru_cache(maxsize=32)
def _tls_context(bundle: str) -> ssl.SSLContext:
    """Return a TLS context that trusts a CA bundle (base64 of PEM), or else the system's CAs.

    Raises:
        ValueError: It is not a CA bundle.
    """
    if not bundle:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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


def _reply(body: bytes, version: str, uid: str) -> Reply:
    try:
        review = json.loads(body)
        if (review["kind"], review["apiVersion"]) != ("AdmissionReview", version):
            raise WebhookError(f"the answer is not an AdmissionReview of {version}")
        response = review["response"]
        if response["uid"] != uid:
            raise WebhookError(f'the answer has uid "{response["uid"]}" instead of "{uid}"')
        patch = json.loads(base64.b64decode(response["patch"])) if response.get("patch") else []
        warnings = [str(each)[:_MAX_WARNING_LENGTH] for each in response.get("warnings") or ()]
        status = response.get("status") or {}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise WebhookError(f"the answer is not an AdmissionReview: {error!r}") from None
    if not isinstance(patch, list) or not isinstance(status, dict):
        raise WebhookError("the answer's patch is not a list, or its status is not an object")
    return Reply(response.get("allowed") is True, status, patch, warnings[:_MAX_WARNINGS])
