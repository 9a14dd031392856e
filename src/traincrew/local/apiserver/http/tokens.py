"""Tokens of ServiceAccounts: JSON Web Tokens that this cluster signs.

This module knows their form and what follows from a token alone; `users` knows whether the account
and the object that it is bound to still exist, and `tokenrequests` who gets one.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from binascii import Error as Base64Error
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.codec import DecodeError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["AUDIENCE", "InvalidTokenError", "Tokens"]

AUDIENCE = "https://kubernetes.default.svc"
"""The audience of tokens for this API, and their issuer."""


_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve P-256: private keys are smaller numbers, and not zero."""
_SIZE = 32
_MAX_VERIFIED = 1024
"""Tokens whose signature is not verified with each request; each has about a kilobyte."""


class InvalidTokenError(Exception):
    """A token that is not valid; the message has the reason, in upstream's words."""


def _algorithm() -> Any:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.ECDSA(hashes.SHA256())


def _pack(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpack(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Tokens:
    """Signs and reads tokens (ES256), and has the key by which others verify them.

    Args:
        secret: the cluster's bearer token; the signing key is derived from it, so that tokens
            outlast the process.
        clock: returns seconds since the epoch.

    Attributes:
        clock: returns seconds since the epoch.
    """

    def __init__(self, secret: str, clock: Callable[[], float]) -> None:
        digest = hashlib.sha512(b"service account tokens\0" + secret.encode()).digest()
        self._number = int.from_bytes(digest) % (_ORDER - 1) + 1
        self._verified = lru_cache(_MAX_VERIFIED)(self._verify)
        self.clock = clock

    @cached_property
    def _key(self) -> Any:
        """The private key; imported when it is first needed: a tenth of a start's time."""
        from cryptography.hazmat.primitives.asymmetric import ec

        return ec.derive_private_key(self._number, ec.SECP256R1())

    @cached_property
    def _head(self) -> str:
        return _pack(encode({"alg": "ES256", "kid": self._key_id, "typ": "JWT"}))

    @cached_property
    def _key_id(self) -> str:
        """The ID of the key, as upstream derives it: the hash of its encoded public half."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return _pack(hashlib.sha256(self._key.public_key().public_bytes(*form)).digest())

    def _sign(self, text: str) -> str:
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        pair = decode_dss_signature(self._key.sign(text.encode(), _algorithm()))
        return _pack(b"".join(number.to_bytes(_SIZE) for number in pair))

    def _verify(self, token: str) -> Document:
        """Return the claims of a token with a valid signature.

        Raises:
            InvalidTokenError: it has none.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

        text, _, signature = token.rpartition(".")
        head, _, body = text.partition(".")
        invalid = InvalidTokenError("invalid bearer token")
        if not token.isascii() or head != self._head:
            raise invalid
        try:
            pair = _unpack(signature)
            if len(pair) != 2 * _SIZE:
                raise invalid
            numbers = (int.from_bytes(pair[:_SIZE]), int.from_bytes(pair[_SIZE:]))
            encoded = encode_dss_signature(*numbers)
            self._key.public_key().verify(encoded, text.encode(), _algorithm())
            claims = decode(_unpack(body))
        except (Base64Error, DecodeError, InvalidSignature, ValueError):
            raise invalid from None
        if not isinstance(claims, dict):
            raise invalid
        return claims

    def key_set(self) -> Document:
        """Return the public key as a JSON Web Key Set (RFC 7517)."""
        public = self._key.public_key().public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self._key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": _pack(public.x.to_bytes(_SIZE)),
            "y": _pack(public.y.to_bytes(_SIZE)),
        }
        return {"keys": [key]}

    def issuer(self, keys: str) -> Document:
        """Return what OpenID Connect calls the metadata of the issuer.

        Args:
            keys: URL of the key set.
        """
        return {
            "issuer": AUDIENCE,
            "jwks_uri": keys,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

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
        text = f"{self._head}.{_pack(encode(claims))}"
        return f"{text}.{self._sign(text)}"

    def claims(self, token: str) -> Document:
        """Return the claims of a token of this cluster that has not expired.

        Raises:
            InvalidTokenError: it is not one.
        """
        claims = self._verified(token)
        if claims.get("exp", 0) <= self.clock():
            raise InvalidTokenError("service account token has expired")
        return claims
