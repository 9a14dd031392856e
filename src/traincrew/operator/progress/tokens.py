"""Whom a token belongs to: pods prove by a TokenReview that they belong to a job.

A token is for one job, by its audience, and bound to one pod, by its claims. Claims are read before
the API server is asked, so that tokens that cannot be right cause no request: nobody trusts them.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field

from traincrew.engine.decoding import UndecodableError, decode_base64, decode_json
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import Resource
from traincrew.operator.progress.limits import RateLimit

if TYPE_CHECKING:
    from typing import Any

    from traincrew.engine.client import Client
    from traincrew.engine.clock import Clock

TOKEN_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False
)
CACHE_SECONDS = 60.0
"""How long the answer to a review counts: as long as an API server may keep it as well."""
RANK_CACHE_SECONDS = 600.0
"""The same for the position of a rank, of which a job may have thousands. That its pod still exists
is not a matter of the review."""
_MAX_CACHED = 10_000
_CONCURRENT_REVIEWS = 8
_REVIEW_SECONDS = 4.0
"""Less than the 5 s after which the clients of the protocol give up."""
_REVIEWS_PER_SECOND, _REVIEWS_AT_ONCE = 20.0, 200
_POD_UID = "authentication.kubernetes.io/pod-uid"


class ReviewError(Exception):
    """It is not known whom a token belongs to: ask again later."""


class _Pod(Struct):
    uid: str = ""


class _Bound(Struct):
    namespace: str = ""
    pod: _Pod = field(default_factory=_Pod)


class _Claims(Struct):
    aud: list[str] | str = ""
    exp: float = 0
    bound: _Bound = field(default_factory=_Bound, name="kubernetes.io")


class PodIdentity(NamedTuple):
    """A pod, by namespace and UID; the UID is that of no pod if the token is bound to none."""

    namespace: str
    uid: str


class _Answer(NamedTuple):
    """Whom a token belongs to, when that was found out, and until when it counts at most."""

    at: float
    expires: float
    identity: PodIdentity | None


def claimed(token: str, audience: str, now: float) -> PodIdentity | None:
    """Return the pod that a token claims to be bound to; None if the token cannot be valid.

    Args:
        token: A JSON Web Token, whose signature is not checked.
        audience: Whom it must be for.
        now: Seconds since the epoch.
    """
    claims = _claims(token)
    if claims is None:
        return None
    audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    if audience not in audiences or claims.exp <= now:
        return None
    return PodIdentity(claims.bound.namespace, claims.bound.pod.uid)


def _claims(token: str) -> _Claims | None:
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii():
        return None
    try:
        return decode_json(decode_base64(parts[1], url=True, padded=False), type=_Claims)
    except UndecodableError:
        return None


class Reviewer:
    """Asks the API server whom tokens belong to, and remembers the answers for a while.

    Args:
        client: The API server.
        clock: Source of time.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._free = asyncio.Semaphore(_CONCURRENT_REVIEWS)
        self._limit = RateLimit(clock, rate=_REVIEWS_PER_SECOND, burst=_REVIEWS_AT_ONCE)
        self._known: dict[bytes, _Answer] = {}

    async def pod(
        self, token: str, audience: str, seconds: float = CACHE_SECONDS
    ) -> PodIdentity | None:
        """Return the pod of a valid token; None if it is not valid, or not for the audience.

        Args:
            token: The token.
            audience: Whom it must be for.
            seconds: How old the answer to a review may be. The number of reviews is limited for
                each of these by itself.

        Raises:
            ReviewError: The API server was not asked, or did not answer.
        """
        claims = _claims(token)
        key = hashlib.sha256(f"{audience}\0{token}".encode()).digest()
        now = self._clock.now().timestamp()
        known = self._known.get(key)
        if known is not None and now < min(known.at + seconds, known.expires):
            return known.identity
        if not self._limit.allows(seconds):
            raise ReviewError("too many tokens are being reviewed")
        identity = await self._review(token, audience)
        expires = claims.exp if claims is not None and identity is not None else now + CACHE_SECONDS
        self._known.pop(key, None)
        self._known[key] = _Answer(now, expires, identity)
        if len(self._known) > _MAX_CACHED:
            del self._known[next(iter(self._known))]
        return identity

    async def _review(self, token: str, audience: str) -> PodIdentity | None:
        review = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token, "audiences": [audience]},
        }
        try:
            async with asyncio.timeout(_REVIEW_SECONDS), self._free:
                answer = await self._client.create(TOKEN_REVIEWS, review)
        except TimeoutError as error:
            raise ReviewError(f"no answer to a TokenReview in {_REVIEW_SECONDS:.0f} s") from error
        except ApiError as error:
            raise ReviewError(error.message) from error
        return _identity(answer.get("status") or {}, audience)


def _identity(status: dict[str, Any], audience: str) -> PodIdentity | None:
    # An API server that does not know audiences would confirm none.
    if not status.get("authenticated") or audience not in (status.get("audiences") or []):
        return None
    user = status.get("user") or {}
    kind, _, account = str(user.get("username", "")).partition("serviceaccount:")
    if kind != "system:":
        return None
    uids = (user.get("extra") or {}).get(_POD_UID) or [""]
    return PodIdentity(account.partition(":")[0], uids[0])
