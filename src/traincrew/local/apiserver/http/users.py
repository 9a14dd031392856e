"""Who a request comes from: the administrator, or the ServiceAccount of a token.

Rules and messages of tokens: ``pkg/serviceaccount`` of Kubernetes (``jwt.go``, ``claims.go``).
"""

from __future__ import annotations

import hmac
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.requests.user import USER
from traincrew.local.apiserver.values.causes import show
from traincrew.local.apiserver.values.errors import not_found

from .tokens import AUDIENCE, InvalidTokenError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document

    from .tokens import Tokens

__all__ = ["Identity", "Users"]

# How long a token is valid after the deletion of what it is bound to, which may need it to end.
_LEEWAY_SECONDS = 60

_API = (AUDIENCE,)


class Identity(NamedTuple):
    """Who a token belongs to.

    Attributes:
        user: the ``userInfo``.
        audiences: the requested audiences that the token is for.
    """

    user: Document
    audiences: list[str]


class Users:
    """Knows whom a bearer token belongs to.

    Args:
        secret: the bearer token of the administrator.
        tokens: reads tokens of ServiceAccounts.
        storage: holds the accounts, and the objects that tokens are bound to.

    Raises:
        ValueError: the secret is shorter than 16 characters, or not a bearer token.
    """

    def __init__(self, secret: str, tokens: Tokens, storage: Storage) -> None:
        if len(secret) < 16 or not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise ValueError("secret: 16 or more printable ASCII characters are needed")
        self._secret = secret.encode()
        self._tokens = tokens
        self._storage = storage

    def identify(self, token: str, audiences: Sequence[str] = _API) -> Identity:
        """Return whom a token belongs to.

        Args:
            token: the token.
            audiences: it has to be for one of them; the default is this API.

        Raises:
            InvalidTokenError: it belongs to nobody, or is for others.
        """
        # Compared in constant time.
        if hmac.compare_digest(token.encode("utf-8", "replace"), self._secret):
            if AUDIENCE not in audiences:
                raise InvalidTokenError("invalid bearer token")
            return Identity(USER, [AUDIENCE])
        claims = self._tokens.claims(token)
        matching = [audience for audience in claims["aud"] if audience in audiences]
        if not matching:
            raise InvalidTokenError(
                f"token audiences {_listed(claims['aud'])} is invalid for the target audiences "
                f"{_listed(audiences)}"
            )
        self._check_bound(claims["kubernetes.io"])
        return Identity(_user(claims), matching)

    def _check_bound(self, bound: Document) -> None:
        """Check that the account of a token, and what it is bound to, exist.

        Raises:
            InvalidTokenError: one of them does not, or is another one of the same name.
        """
        namespace, account = bound["namespace"], bound["serviceaccount"]
        found = self._metadata("serviceaccounts", namespace, account["name"])
        if found is None:
            raise InvalidTokenError(not_found("serviceaccounts", "", account["name"]).message)
        if found["uid"] != account["uid"]:
            raise InvalidTokenError(
                f"service account UID ({found['uid']}) does not match claim ({account['uid']})"
            )
        if self._was_deleted(found):
            raise InvalidTokenError(
                f"service account {namespace}/{account['name']} has been deleted"
            )
        if "secret" in bound:
            self._check("secrets", namespace, bound["secret"], "secret")
        if "pod" in bound:
            self._check("pods", namespace, bound["pod"], "pod")
        elif "node" in bound:  # that of a pod is for information only
            self._check("nodes", "", bound["node"], "node")

    def _check(self, resource: str, namespace: str, reference: Document, kind: str) -> None:
        found = self._metadata(resource, namespace, reference["name"])
        if found is None or self._was_deleted(found):
            raise InvalidTokenError("service account token has been invalidated")
        if found["uid"] != reference["uid"]:
            raise InvalidTokenError(
                f"{kind} UID ({found['uid']}) does not match service account {kind} ref claim "
                f"({reference['uid']})"
            )

    def _metadata(self, resource: str, namespace: str, name: str) -> Document | None:
        entry = self._storage.get(resource, (namespace, name))
        if entry is None:
            return None
        metadata: Document = entry.obj["metadata"]
        return metadata

    def _was_deleted(self, metadata: Document) -> bool:
        deleted = metadata.get("deletionTimestamp")
        if deleted is None:
            return False
        earliest = self._tokens.clock() - _LEEWAY_SECONDS
        return datetime.fromisoformat(deleted).timestamp() < earliest


def _listed(audiences: Sequence[str]) -> str:
    return f"[{' '.join(map(show, audiences))}]"


def _user(claims: Document) -> Document:
    """Return the ``userInfo`` of the ServiceAccount in the claims of a token."""
    bound = claims["kubernetes.io"]
    extra = {"credential-id": [f"JTI={claims['jti']}"]}
    for kind in ("pod", "node"):
        for field, value in (bound.get(kind) or {}).items():
            extra[f"{kind}-{field}"] = [value]
    return {
        "username": claims["sub"],
        "uid": bound["serviceaccount"]["uid"],
        "groups": [
            "system:serviceaccounts",
            f"system:serviceaccounts:{bound['namespace']}",
            "system:authenticated",
        ],
        "extra": {f"authentication.kubernetes.io/{key}": value for key, value in extra.items()},
    }
