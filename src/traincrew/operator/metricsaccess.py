"""Who may read the metrics: TokenReview and SubjectAccessReview, as in controller-runtime.

A client sends its bearer token. The API server identifies the user, who must be allowed to ``get``
the non-resource URL ``/metrics`` (``metrics/filters`` of controller-runtime, kube-rbac-proxy).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from traincrew.engine.clock import SystemClock
from traincrew.engine.errors import ApiError
from traincrew.engine.observability import get_logger

if TYPE_CHECKING:
    from traincrew.engine.client import Client
    from traincrew.engine.clock import Clock

__all__ = ["MetricsAccess", "self_signed"]

PATH = "/metrics"
ALLOWED_SECONDS = 60.0
REFUSED_SECONDS = 10.0
"""How long an answer is used again; upstream keeps tokens for a minute, refusals for 30 seconds."""
MAX_ANSWERS = 256
MAX_REVIEWS = 4
"""At a time: whoever reaches the port can send any number of tokens."""
_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_CERTIFICATE_LIFETIME = timedelta(days=3650)


class MetricsAccess:
    """Asks the API server about tokens, and remembers its answers for a short time.

    Args:
        client: Creates the reviews; need not be the leader.
        clock: Source of time.
    """

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        # By the hash of the token, so that a dump of the memory shows no more than needed.
        self._answers: dict[bytes, tuple[float, int]] = {}
        self._reviewing = asyncio.Semaphore(MAX_REVIEWS)

    async def check(self, authorization: str) -> int:
        """Return the status for an ``Authorization`` header.

        Returns:
            200 for those who may read the metrics, 401 without a valid token, 403 for others, 503
            if the API server does not answer.
        """
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return 401
        key = hashlib.sha256(token.encode()).digest()
        if (known := self._known(key)) is not None:
            return known
        async with self._reviewing:
            if (known := self._known(key)) is not None:
                return known
            try:
                status = await self._review(token)
            except ApiError as error:
                get_logger().warning("metrics: the token was not reviewed", error=str(error))
                return 503
        self._remember(key, status)
        return status

    def _known(self, key: bytes) -> int | None:
        until, status = self._answers.get(key, (0.0, 0))
        return status if until > self._clock.monotonic() else None

    def _remember(self, key: bytes, status: int) -> None:
        seconds = ALLOWED_SECONDS if status == 200 else REFUSED_SECONDS
        self._answers.pop(key, None)
        if len(self._answers) >= MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = self._clock.monotonic() + seconds, status

    async def _review(self, token: str) -> int:
        review = await self._ask(
            _TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", {"token": token}
        )
        if not review.get("authenticated"):
            return 401
        user = review.get("user") or {}
        spec = {
            "user": user.get("username", ""),
            "groups": user.get("groups") or [],
            "uid": user.get("uid", ""),
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": PATH, "verb": "get"},
        }
        access = await self._ask(
            _ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", spec
        )
        return 200 if access.get("allowed") else 403

    async def _ask(
        self, path: str, api_version: str, kind: str, spec: dict[str, Any]
    ) -> dict[str, Any]:
        """Create a review and return its status."""
        body = {"apiVersion": api_version, "kind": kind, "spec": spec}
        answer = await self._client.request_object("POST", path, body=body)
        status: dict[str, Any] = answer.get("status") or {}
        return status


def self_signed(host: str) -> ssl.SSLContext:
    """Return TLS settings with a new certificate, as controller-runtime makes it by default.

    Args:
        host: Name in the certificate. Clients cannot verify it: they trust the network for that.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host or "traincrew-operator")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _CERTIFICATE_LIFETIME)
        .sign(key, SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    pem += made.public_bytes(Encoding.PEM)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    _load(context, pem)
    return context


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Load certificate and key, which the library reads from files only.

    The file system of the operator's container is read-only, so on Linux the file is in memory.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("traincrew-metrics", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, pem)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
