"""HTTP requests to registries: redirects, proxies, certificates; what aiohttp raises stays here."""

from __future__ import annotations

import re
import ssl
from base64 import b64decode, b64encode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from traincrew.engine.client.bounds import read_whole, refuse_encoding
from traincrew.engine.client.transport import origin, unreachable
from traincrew.engine.config.proxies import environment_proxy
from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.engine.errors import BadAnswerError
from traincrew.local.images.oci.registry.failures import RegistryError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    import aiohttp
    from yarl import URL

    from traincrew.local.images.oci.registry.settings import RegistrySettings

__all__ = ["Answer", "Connection", "Patience"]

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_ERROR = 64 * 1024
_MAX_SHOWN = 300
_MAX_ADDRESS = 16 * 1024
"""Bytes of an address: signed ones of object stores have a few KiB."""
_READ_BUFFER = 2**20
_MAX_READ = 1200
"""Characters of an error's text that are looked at."""
_SECRET = re.compile(
    r"[Bb](?:earer|asic)\s+\S{16,}|(?:[Tt]oken|[Pp]assword|[Ss]ecret)\s?[=:]\s?\S{4,}"
    r"|eyJ[\w-]{1,300}\.[\w.-]{1,1000}"
)


class Patience(Struct, frozen=True):
    """How long to try.

    Attributes:
        connect: Seconds for a connection.
        idle: Seconds without a byte of an answer.
        document: Seconds for a whole manifest or token, which are small.
        attempts: Number of tries of a request that fails for a moment.
        base: Seconds before the second try; doubles with every further one.
        cap: Longest of these delays in seconds.
        longest_wait: Largest ``Retry-After`` that is waited for, in seconds.
    """

    connect: float = 30.0
    idle: float = 60.0
    document: float = 300.0
    attempts: int = 5
    base: float = 0.5
    cap: float = 10.0
    longest_wait: float = 60.0


class Answer:
    """The answer to a request, at the end of all redirects. Header names are lower case."""

    def __init__(
        self, response: aiohttp.ClientResponse, url: str, secrets: tuple[str, ...] = ()
    ) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self.challenges = tuple(response.headers.getall("WWW-Authenticate", ()))
        self.host = urlsplit(url).netloc.rpartition("@")[2]
        self.is_foreign = False
        """Whether a redirect has led to another host."""
        self._response = response
        self._url = url
        self._secrets = secrets

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives.

        Raises:
            RegistryError: ``unreachable``: the connection broke, or was silent for too long.
        """
        import aiohttp

        read = self._response.content.readany
        try:
            while chunk := await read():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _failure(self._url, error) from error

    async def read(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            RegistryError: It is longer than `limit` bytes, or was cut off.
        """
        try:
            return await read_whole(self.chunks(), limit, self.headers.get("content-length"))
        except BadAnswerError as error:
            limit_text = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"
            raise RegistryError(
                "refused", f"{self.host} answered with more than {limit_text}"
            ) from error

    async def explained(self) -> str:
        """Return what an error says of itself, in one line; empty if it says nothing."""
        try:
            body = await self.read(_MAX_ERROR)
            document = decode_json(body)
        except (RegistryError, UndecodableError):
            return ""
        return _explanation(document, self._secrets)


class Connection:
    """Connections to registries and to the hosts they redirect to.

    Use as an async context manager.

    Args:
        settings: Which hosts have certificates of their own, or none.
        patience: How long to try.
        user_agent: ``User-Agent`` header.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        patience: Patience | None = None,
        user_agent: str = "traincrew",
    ) -> None:
        self.settings = settings
        self.patience = patience or Patience()
        self._user_agent = user_agent
        self._contexts: dict[str, ssl.SSLContext | bool] = {}
        self._session: aiohttp.ClientSession | None = None
        self.has_answers = False
        """Whether anything has answered: the network is there."""

    async def __aenter__(self) -> Self:
        import aiohttp

        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            # Proxies are looked up here: aiohttp would also send the passwords of ~/.netrc to
            # whatever host it is redirected to.
            trust_env=False,
            read_bufsize=_READ_BUFFER,
            max_line_size=_MAX_ADDRESS,
            max_field_size=_MAX_ADDRESS,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        authorization: str | None = None,
        body: dict[str, str] | None = None,
        whole: bool = True,
    ) -> AsyncIterator[Answer]:
        """Send a request and yield its answer.

        Redirects are followed, a limited number of times. ``Authorization`` goes to the scheme,
        host and port of `url` alone, and never again after a redirect to others.

        Args:
            method: Upper case.
            url: Absolute, percent-encoded.
            headers: Without credentials.
            authorization: Value of the header.
            body: A form, which is not sent anywhere else: its redirects are refused.
            whole: Whether the answer is small: its time is limited, not only each read's.

        Raises:
            RegistryError: No answer arrived, or its redirect cannot be followed.
        """
        sent = {"User-Agent": self._user_agent, "Accept-Encoding": "identity", **(headers or {})}
        if authorization is not None:
            sent["Authorization"] = authorization
        first = origin(url)
        for _ in range(_MAX_REDIRECTS + 1):
            response = await self._once(method, url, sent, body, whole=whole)
            self.has_answers = True
            async with response:
                location = response.headers.get("Location")
                if response.status not in _REDIRECTS or location is None:
                    try:
                        refuse_encoding({k.lower(): v for k, v in response.headers.items()})
                    except BadAnswerError as error:
                        raise RegistryError("refused", str(error)) from error
                    answer = Answer(response, url, _secrets(authorization, body))
                    answer.is_foreign = origin(url) != first
                    yield answer
                    return
                if body is not None:
                    raise RegistryError(
                        "refused",
                        f"{origin(url)} redirects credentials, which are sent nowhere else",
                    )
                target = _target(url, location)
            if origin(target) != origin(url):
                sent.pop("Authorization", None)
            url = target
        raise RegistryError(
            "refused", f"more than {_MAX_REDIRECTS} redirects, the last to {origin(url)}"
        )

    async def _once(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        body: dict[str, str] | None,
        *,
        whole: bool,
    ) -> aiohttp.ClientResponse:
        import aiohttp
        from yarl import URL

        assert self._session is not None
        parts = urlsplit(url)
        options: dict[str, Any] = {}
        if (proxy := environment_proxy(parts.scheme, parts.hostname or "")) is not None:
            # A password of the proxy must not reach an error's text.
            options["proxy"] = URL(proxy).with_user(None)
            if (words := _basic(URL(proxy))) is not None:
                if parts.scheme == "https":
                    options["proxy_headers"] = {"Proxy-Authorization": words}
                else:
                    headers = {**headers, "Proxy-Authorization": words}
        if parts.scheme == "https":
            options["ssl"] = self._context(parts.netloc)
        patience = self.patience
        try:
            return await self._session.request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    total=patience.document if whole else None,
                    sock_connect=patience.connect,
                    sock_read=patience.idle,
                ),
                **options,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _failure(url, error, proxied="proxy" in options) from error
        except ValueError as error:
            raise RegistryError("refused", f"{origin(url)} cannot be asked: {error}") from error

    def _context(self, host: str) -> ssl.SSLContext | bool:
        context = self._contexts.get(host)
        if context is None:
            chosen = self.settings.of(host)
            context = not chosen.skip_verify
            if chosen.ca_file is not None:
                context = ssl.create_default_context()
                try:
                    context.load_verify_locations(chosen.ca_file)
                except (OSError, ssl.SSLError) as error:
                    raise RegistryError(
                        "certificate",
                        f"{self.settings.path}: registries[{host}].caFile: {chosen.ca_file} "
                        f"cannot be used: {error.strerror or error}",
                    ) from error
            self._contexts[host] = context
        return context


def _basic(address: URL) -> str | None:
    if address.user is None:
        return None
    words = f"{address.user}:{address.password or ''}"
    return f"Basic {b64encode(words.encode()).decode()}"


def _target(url: str, location: str) -> str:
    """Return where a redirect leads.

    Raises:
        RegistryError: It cannot be followed, or leaves TLS.
    """
    if len(location) > _MAX_ADDRESS or not location.isprintable() or " " in location:
        raise RegistryError("refused", f"{origin(url)} redirects to no valid address")
    try:
        target = urljoin(url, location)
        parts = urlsplit(target)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise RegistryError("refused", f"{origin(url)} redirects to no valid address")
    if urlsplit(url).scheme == "https" and parts.scheme == "http":
        raise RegistryError(
            "refused", f"{origin(url)} redirects to {origin(target)}, which is not encrypted"
        )
    # User and password of an address would become a header.
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def _failure(url: str, error: BaseException, *, proxied: bool = False) -> RegistryError:
    import aiohttp

    text = str(unreachable(url, error))
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return RegistryError("certificate", text)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        text = f"{origin(url)} closed the connection in the middle of an answer"
    elif isinstance(error, aiohttp.ClientResponseError) and not proxied:
        return RegistryError("refused", f"{origin(url)} does not answer in HTTP")
    elif isinstance(error, aiohttp.ClientConnectorSSLError) and not proxied:
        text += " (a registry of plain HTTP needs plainHTTP: true in registries.yaml)"
    if proxied:
        text += " (by the proxy of HTTP_PROXY or HTTPS_PROXY)"
    connected = not isinstance(error, aiohttp.ClientConnectorError)
    return RegistryError("unreachable", text, connected=connected)


def _secrets(authorization: str | None, body: dict[str, str] | None) -> tuple[str, ...]:
    """Return what was sent and must not be shown, should the server repeat it."""
    found = list((body or {}).values())
    scheme, _, value = (authorization or "").partition(" ")
    if value:
        found.append(value)
    if scheme == "Basic":
        found.append(b64decode(value).decode().partition(":")[2])
    return tuple(one for one in found if one)


def _explanation(document: Any, secrets: tuple[str, ...]) -> str:
    """Return the text of an error of a registry, or of a server of tokens."""
    if not isinstance(document, dict):
        return ""
    errors = document.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else document
    if not isinstance(first, dict):
        return ""
    for key in ("message", "error_description", "details", "error", "code"):
        text = first.get(key)
        if not isinstance(text, str) or not text.strip():
            continue
        for secret in secrets:
            text = text.replace(secret, "…")
        line = _SECRET.sub("…", " ".join(text[:_MAX_READ].split()))[:_MAX_SHOWN]
        return "".join(one if one.isprintable() else "?" for one in line)
    return ""
