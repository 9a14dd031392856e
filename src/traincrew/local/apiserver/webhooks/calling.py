"""One call of one webhook: an AdmissionReview over HTTPS, and its response."""

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
from traincrew.local.apiserver.values.errors import StatusError

from .describing import identity_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

    from .matching import Webhook

__all__ = ["MAX_TIMEOUT_SECONDS", "Reply", "WebhookError", "call_webhook"]

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
        if fault := identity_fault(document, patched):
            raise WebhookError(f"its patch {fault}")
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
    destination = _destination(config, storage)
    url = f"{destination.url}?timeout={seconds}s"
    try:
        tls = _tls_context(str(config.get("caBundle") or ""))
        body = await _post(destination, f"timeout={seconds}s", review, tls, seconds)
    except TimeoutError:
        detail = "context deadline exceeded"  # Go's words, which clients match
        raise WebhookError(f'failed to call webhook: Post "{url}": {detail}') from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise WebhookError(f'failed to call webhook: Post "{url}": {error}') from None
    return _reply(body, version, request["uid"])


def _destination(config: Document, storage: Storage) -> _Destination:
    if url := config.get("url"):
        parts = urlsplit(str(url))
        if parts.scheme != "https" or not parts.hostname:
            raise WebhookError(f'clientConfig.url "{url}" is not https://HOST')
        return _Destination(str(url), str(url), parts.hostname)
    service = config.get("service") or {}
    name, namespace = str(service.get("name", "")), str(service.get("namespace", ""))
    port = int(service.get("port") or 443)
    path = "/" + str(service.get("path") or "").lstrip("/")
    entry = storage.get("services", (namespace, name))
    if entry is None:
        raise WebhookError(f'failed to call webhook: service "{name}" not found in "{namespace}"')
    try:
        found = service_endpoint(
            storage,
            namespace,
            SchemeNamePort("https", name, str(port)),
            entry.obj.get("spec") or {},
        )
    except StatusError as error:
        raise WebhookError(f"failed to call webhook: {error.message}") from None
    host = f"{name}.{namespace}.svc"
    return _Destination(
        f"https://{host}:{port}{path}", f"https://{found.address}:{found.port}{path}", host
    )


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
