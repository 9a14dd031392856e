"""Service account tokens: signed by this cluster, valid for its API until they expire."""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from binascii import Error as Base64Error
from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests.objectmeta import timestamp
from traincrew.local.apiserver.values.codec import DecodeError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Tokens"]

_AUDIENCE = "https://kubernetes.default.svc"
_MIN_SECONDS = 600
_DEFAULT_SECONDS = 3600


def _pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpack(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Tokens:
    """Issues and checks tokens (JSON Web Tokens signed with HS256).

    Args:
        secret: the cluster's bearer token; the signing key is derived from it.
        clock: returns seconds since the epoch.
    """

    def __init__(self, secret: str, clock: Callable[[], float]) -> None:
        self._key = hashlib.sha256(b"service account tokens\0" + secret.encode()).digest()
        self._clock = clock

    def _sign(self, text: str) -> str:
        return _pack(hmac.digest(self._key, text.encode(), "sha256"))

    def issue(
        self, account: Document, request: Document, bound: Mapping[str, Document] | None = None
    ) -> Document:
        """Issue the token for a TokenRequest.

        Args:
            account: the ServiceAccount.
            request: its spec may set ``expirationSeconds``, ``audiences``, ``boundObjectRef``.
            bound: the objects that the token is bound to: ``pod`` and ``node``, each with name and
                UID.

        Returns:
            The request with its status.
        """
        metadata = account["metadata"]
        spec = request.get("spec") or {}
        seconds = spec.get("expirationSeconds")
        seconds = max(seconds, _MIN_SECONDS) if isinstance(seconds, int) else _DEFAULT_SECONDS
        audiences = spec.get("audiences") or [_AUDIENCE]
        now = int(self._clock())
        expires = now + seconds
        claims = {
            "aud": audiences,
            "exp": expires,
            "iat": now,
            "iss": _AUDIENCE,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": metadata["namespace"],
                "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
                **(bound or {}),
            },
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        head = _pack(encode({"alg": "HS256", "typ": "JWT"}))
        text = f"{head}.{_pack(encode(claims))}"
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "creationTimestamp": timestamp(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {
                "token": f"{text}.{self._sign(text)}",
                "expirationTimestamp": timestamp(expires),
            },
        }

    def claims(self, token: str) -> Document | None:
        """Return the claims of a token; None when it is not from this cluster or has expired."""
        text, _, signature = token.rpartition(".")
        if not text or not hmac.compare_digest(
            signature.encode("utf-8", "replace"), self._sign(text).encode()
        ):
            return None
        try:
            claims = decode(_unpack(text.partition(".")[2]))
        except (Base64Error, DecodeError, ValueError):
            return None
        if not isinstance(claims, dict) or claims.get("exp", 0) <= self._clock():
            return None
        return claims
