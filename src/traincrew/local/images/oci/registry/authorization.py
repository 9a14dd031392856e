"""Answers to a registry's challenge: nothing, a user and password, or a token of its token server.

Protocol: https://distribution.github.io/distribution/spec/auth/token/ and its ``oauth`` page, which
has the refresh tokens.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from traincrew.engine.client.transport import origin
from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.local.images.oci.registry.failures import RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traincrew.local.images.oci.registry.challenges import Challenge
    from traincrew.local.images.oci.registry.connection import Answer, Connection
    from traincrew.local.images.oci.registry.credentials import Credential

__all__ = ["Authorization", "refusal"]

_MAX_TOKEN = 64 * 1024
_CLIENT = "traincrew"
_DEFAULT_SECONDS = 60.0
_LONGEST_SECONDS = 86400.0
_EARLY_SECONDS = 10.0
"""A token that ends so soon is not used for another request."""


class _Token(Struct):
    token: str = ""
    access_token: str = ""
    expires_in: float | None = None


class Authorization:
    """The ``Authorization`` header for one repository of one registry.

    Args:
        connection: Asks token servers.
        server: Address of the registry, with scheme.
        repository: What to pull from there.
        credential: Used when the registry challenges; None to ask as nobody.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        connection: Connection,
        server: str,
        repository: str,
        credential: Credential | None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.credential = credential
        self._connection = connection
        self._server = server
        self._repository = repository
        self._monotonic = monotonic
        self._challenge: Challenge | None = None
        self._header: str | None = None
        self._accepted = True
        self._expires = float("inf")
        self._lock = asyncio.Lock()

    async def header(self) -> str | None:
        """Return the header's value; None before the registry has asked for one.

        Raises:
            RegistryError: The token server refused or failed.
        """
        async with self._lock:
            if self._header is not None and self._monotonic() >= self._expires:
                await self._answer()
            return self._header

    @property
    def has_token(self) -> bool:
        """Whether the registry's server of tokens has accepted the caller."""
        return self._header is not None and self._header.startswith("Bearer ")

    @property
    def challenges(self) -> list[Challenge]:
        """What the registry has asked for."""
        return [] if self._challenge is None else [self._challenge]

    def accepted(self, header: str | None) -> None:
        """Note that the registry took a header: if it refuses it later, the header is too old."""
        if header == self._header:
            self._accepted = True

    async def challenged(self, rejected: str | None, challenges: Sequence[Challenge]) -> bool:
        """Prepare another header after a 401.

        Args:
            rejected: The value that the registry did not accept, if one was sent.
            challenges: Of its answer.

        Returns:
            Whether there is another header to try.

        Raises:
            RegistryError: The token server refused or failed, or cannot be asked safely.
        """
        async with self._lock:
            if self._header != rejected:  # another request has done it meanwhile
                return True
            if rejected is not None and not self._accepted:
                return False
            chosen = {one.scheme: one for one in reversed(challenges)}
            self._challenge = chosen.get("bearer") or chosen.get("basic")
            if self._challenge is None:
                return False
            if self._challenge.scheme == "basic" and self.credential is None:
                return False
            await self._answer()
            return self._header != rejected

    async def _answer(self) -> None:
        assert self._challenge is not None
        self._accepted = False
        if self._challenge.scheme == "basic":
            if self.credential is not None:
                self._header = _basic(self.credential)
            return
        self._header = await self._token(self._challenge)

    async def _token(self, challenge: Challenge) -> str:
        realm = challenge.parameters.get("realm", "")
        try:
            parts = urlsplit(realm)
            valid = (
                parts.scheme in {"http", "https"}
                and bool(parts.hostname)
                and "@" not in parts.netloc
            )
        except ValueError:
            valid = False
        if not valid:
            raise RegistryError("refused", "the registry names no valid server of tokens")
        if parts.scheme == "http" and self._server.startswith("https:"):
            raise RegistryError(
                "refused",
                f"the registry wants credentials sent to {origin(realm)}, which is not encrypted",
            )
        # What a registry names may be less than a pull needs, or another name for the repository.
        wanted = f"repository:{self._repository}:pull"
        scopes = dict.fromkeys([wanted, *challenge.parameters.get("scope", "").split()])
        asked = {"service": challenge.parameters.get("service", "")}
        asked = {key: value for key, value in asked.items() if value}
        credential = self.credential
        authorization = body = None
        url = realm
        if credential is not None and credential.identity_token:
            body = {
                **asked,
                "scope": " ".join(scopes),
                "grant_type": "refresh_token",
                "refresh_token": credential.identity_token,
                "client_id": _CLIENT,
            }
        else:
            if credential is not None:
                authorization = _basic(credential)
                asked["account"] = credential.user
            query = urlencode([*asked.items(), *(("scope", scope) for scope in scopes)])
            url = f"{realm}{'&' if parts.query else '?'}{query}"
        method = "POST" if body is not None else "GET"
        async with self._connection.send(
            method, url, authorization=authorization, body=body
        ) as answer:
            if answer.status != 200:
                raise await refusal(answer, "the server of tokens", wrong=credential is not None)
            content = await answer.read(_MAX_TOKEN)
        return self._taken(content, origin(realm))

    def _taken(self, content: bytes, server: str) -> str:
        try:
            answer = decode_json(content, type=_Token)
        except UndecodableError:
            raise RegistryError("refused", f"{server} answered with no token") from None
        token = answer.token or answer.access_token
        if not token or not token.isascii() or not token.isprintable():
            raise RegistryError("refused", f"{server} answered with no token")
        seconds = answer.expires_in
        if seconds is None or not seconds > 0:
            seconds = _DEFAULT_SECONDS
        seconds = min(seconds, _LONGEST_SECONDS)
        self._expires = self._monotonic() + max(seconds - _EARLY_SECONDS, seconds / 2)
        return f"Bearer {token}"


def _basic(credential: Credential) -> str:
    return f"Basic {b64encode(f'{credential.user}:{credential.password}'.encode()).decode()}"


async def refusal(answer: Answer, who: str, *, wrong: bool = False) -> RegistryError:
    """Return the error for an answer that is not what was asked for.

    Args:
        answer: With a status of 300 or more.
        who: What has answered, for messages.
        wrong: Whether it refuses words that it was given: a 400 is then a 401.
    """
    status = answer.status
    said = await answer.explained()
    text = f"{who} ({answer.host}) answered {_named(status)}" + (f": {said}" if said else "")
    if answer.is_foreign and 400 <= status < 500 and status not in {404, 410, 429}:
        # An object store: the address that the registry has signed is too old, say.
        return RegistryError("failing", text)
    if status == 401 or (status == 400 and wrong):
        return RegistryError("unauthorized", text, expired="expired" in said.lower())
    if status == 403:
        return RegistryError("denied", text, expired="expired" in said.lower())
    if status in {404, 410}:
        return RegistryError("missing", text)
    if status in {408, 429}:
        return RegistryError("busy", text, retry_after=_retry_after(answer))
    if status >= 500:
        return RegistryError("failing", text, retry_after=_retry_after(answer))
    return RegistryError("refused", text)


def _named(status: int) -> str:
    """Return a status with its name, by which `traincrew why` knows it."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _retry_after(answer: Answer) -> float | None:
    value = answer.headers.get("retry-after", "").strip()
    return float(value) if value.isascii() and value.isdecimal() and len(value) < 9 else None
