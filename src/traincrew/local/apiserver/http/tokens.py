"""Tokens of ServiceAccounts: JSON Web Tokens that this cluster signs.

This module knows their form and what follows from a token alone; `users` knows whether the account
and the object that it is bound to still exist, and `tokenrequests` who gets one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from binascii import Error as Base64Error
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.codec import DecodeError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["AUDIENCE", "InvalidTokenError", "Tokens"]

AUDIENCE = "https://kubernetes.default.svc"
"""The audience of tokens for this API, and their issuer."""


class InvalidTokenError(Exception):
    """A token that is not valid; the message has the reason, in upstream's words."""


def _pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpack(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Tokens:
    """Signs and reads tokens (HS256).

    Args:
        secret: the cluster's bearer token; the signing key is derived from it.
        clock: returns seconds since the epoch.

    Attributes:
        clock: returns seconds since the epoch.
    """

    def __init__(self, secret: str, clock: Callable[[], float]) -> None:
        self._key = hashlib.sha256(b"service account tokens\0" + secret.encode()).digest()
        self.clock = clock

    def _sign(self, text: str) -> str:
        return _pack(hmac.digest(self._key, text.encode(), "sha256"))

    def issue(
        self,
        account: Document,
        audiences: Sequence[str],
        expires: int,
        bound: Mapping[str, Document],
    ) -> str:
        """Return a new token.

        Args:
            account: the ServiceAccount.
            audiences: for whom it is.
            expires: seconds since the epoch.
            bound: the objects that it is bound to: ``pod``, ``node`` or ``secret``, each with name
                and UID.
        """
        metadata = account["metadata"]
        now = int(self.clock())
        claims = {
            "aud": audiences,
            "exp": expires,
            "iat": now,
            "iss": AUDIENCE,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": metadata["namespace"],
                "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
                **bound,
            },
            "nbf": now,
            "sub": f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}",
        }
        head = _pack(encode({"alg": "HS256", "typ": "JWT"}))
        text = f"{head}.{_pack(encode(claims))}"
        return f"{text}.{self._sign(text)}"

    def claims(self, token: str) -> Document:
        """Return the claims of a token of this cluster that has not expired.

        Raises:
            InvalidTokenError: it is not one.
        """
        text, _, signature = token.rpartition(".")
        invalid = InvalidTokenError("invalid bearer token")
        if not (text and token.isascii()) or not hmac.compare_digest(signature, self._sign(text)):
            raise invalid
        try:
            claims = decode(_unpack(text.partition(".")[2]))
        except (Base64Error, DecodeError, ValueError):
            raise invalid from None
        if not isinstance(claims, dict):
            raise invalid
        if claims.get("exp", 0) <= self.clock():
            raise InvalidTokenError("service account token has expired")
        return claims
