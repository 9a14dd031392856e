"""One repository of one registry or mirror: manifests and blobs, with credentials and retries."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import Struct

from traincrew.engine.backoff import Backoff
from traincrew.engine.config.proxies import is_loopback
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.documents import (
    MANIFEST_TYPES,
    MAX_MANIFEST,
    check_digest,
    digest_of,
)
from traincrew.local.images.oci.registry.authorization import Authorization, refusal
from traincrew.local.images.oci.registry.challenges import parse_challenges
from traincrew.local.images.oci.registry.failures import RegistryError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import TypeVar

    from traincrew.local.images.oci.model import Descriptor
    from traincrew.local.images.oci.registry.challenges import Challenge
    from traincrew.local.images.oci.registry.connection import Answer, Connection
    from traincrew.local.images.oci.registry.credentials import Credential, Keyring, Looked

    T = TypeVar("T")

__all__ = ["Document", "Repository", "retried"]


class Document(Struct, frozen=True):
    """A manifest or an index.

    Attributes:
        digest: Of its bytes.
        media_type: As the registry names it.
        content: Its bytes.
    """

    digest: str
    media_type: str
    content: bytes


class Repository:
    """Asks one server for the parts of one image.

    Args:
        connection: Sends requests.
        host: The server, with a port if it has its own.
        name: Of the repository there.
        credentials: Asked for the words of this server and repository, when it wants some.
        known_as: What keys of credentials call the server; its host by default.
    """

    def __init__(
        self,
        connection: Connection,
        host: str,
        name: str,
        credentials: Keyring,
        *,
        known_as: str = "",
    ) -> None:
        self.host = host
        self.name = name
        self.looked: list[Looked] = []
        """Where credentials were looked for; empty as long as none were needed."""
        self.tried: list[Credential] = []
        """Credentials that were refused."""
        self._connection = connection
        self._keyring = credentials
        self._key = f"{known_as or host}/{name}"
        self._server: str | None = None
        self._left: list[Credential] | None = None
        self._authorization: Authorization | None = None
        self._lock = asyncio.Lock()

    @property
    def credential(self) -> Credential | None:
        """Whose rights were used last; None for those of strangers."""
        return None if self._authorization is None else self._authorization.credential

    async def digest(self, reference: str) -> str | None:
        """Return the digest of a manifest without reading it; None if the server does not say.

        Args:
            reference: A tag or a digest.

        Raises:
            RegistryError: It cannot be had.
        """
        async with self._request("HEAD", f"manifests/{reference}", accept=True) as answer:
            if answer.status != 200:
                raise await refusal(answer, "the registry")
            found = answer.headers.get("docker-content-digest", "")
        try:
            return check_digest(found, "its manifest")
        except ImageContentError:
            return None

    async def manifest(self, reference: str) -> Document:
        """Return a manifest or an index, whose bytes have the digest that is asked for.

        Args:
            reference: A tag or a digest.

        Raises:
            RegistryError: It cannot be had.
            ImageContentError: It is something else.
        """
        async with self._request("GET", f"manifests/{reference}", accept=True) as answer:
            if answer.status != 200:
                raise await refusal(answer, "the registry")
            content = await answer.read(MAX_MANIFEST)
        digest = digest_of(content)
        wanted = reference if ":" in reference else answer.headers.get("docker-content-digest")
        if wanted is not None and wanted.startswith("sha256:") and wanted != digest:
            raise ImageContentError(
                f"{self.host} sent a manifest with the digest {digest} in place of {wanted[:80]}"
            )
        return Document(digest, answer.headers.get("content-type", ""), content)

    async def small_blob(self, descriptor: Descriptor) -> bytes:
        """Return a blob that is read into memory, such as a configuration.

        Raises:
            RegistryError: It cannot be had.
            ImageContentError: Its size or digest is another one.
        """
        async with self.blob(descriptor, 0, whole=True) as answer:
            if answer.status != 200:
                raise await refusal(answer, "the registry")
            content = await answer.read(descriptor.size)
        if digest_of(content) != descriptor.digest:
            raise ImageContentError(
                f"{self.host} sent {len(content)} bytes that are not the blob {descriptor.digest}"
            )
        return content

    @asynccontextmanager
    async def blob(
        self, descriptor: Descriptor, start: int, *, whole: bool = False
    ) -> AsyncIterator[Answer]:
        """Ask for a blob and yield the answer, whatever its status.

        Args:
            descriptor: Of the blob.
            start: The first byte that is wanted.
            whole: Whether the time for all of it is limited.

        Raises:
            RegistryError: There was none.
        """
        headers = {"Range": f"bytes={start}-"} if start else {}
        path = f"blobs/{descriptor.digest}"
        async with self._request("GET", path, headers=headers, whole=whole) as answer:
            yield answer

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        *,
        accept: bool = False,
        headers: dict[str, str] | None = None,
        whole: bool = True,
    ) -> AsyncIterator[Answer]:
        """Send a request with what the server wants to know of the caller.

        The first request has no credentials: a server that does not ask for them gets none.
        Afterwards each of them is tried, and of each a second token if the first has expired.
        """
        server = await self._address()
        sent = {"Accept": ", ".join(MANIFEST_TYPES)} if accept else {}
        sent |= headers or {}
        url = f"{server}/v2/{self.name}/{path}"
        while True:
            used = self._authorization
            header = None
            try:
                if used is not None:
                    header = await used.header()
            except RegistryError as refused:
                await self._go_on(used, header, refused, [])
                continue
            async with self._connection.send(
                method, url, headers=sent, authorization=header, whole=whole
            ) as answer:
                challenges = parse_challenges(answer.challenges)
                if answer.is_foreign:
                    accepted = True  # what another host says is not about these credentials
                elif answer.status in {403, 404} and used is None:
                    challenges = await self._challenges_for_known()
                    accepted = not challenges
                else:
                    accepted = answer.status not in {401, 403}
                if accepted:
                    if used is not None and answer.status < 400:
                        used.accepted(header)
                    yield answer
                    return
                error = await refusal(answer, "the registry")
            await self._go_on(used, header, error, challenges)

    async def _go_on(
        self,
        used: Authorization | None,
        header: str | None,
        error: RegistryError,
        challenges: list[Challenge],
    ) -> None:
        """Choose what the next try of a request says of the caller.

        Args:
            used: What the last one said; None for nothing.
            header: Its value.
            error: The server's answer, or that of its server of tokens.
            challenges: Of that answer.

        Raises:
            RegistryError: There is nothing else to try, or `error` is about something else.
        """
        async with self._lock:
            if self._authorization is not used:  # another request has chosen meanwhile
                return
            if error.kind not in {"unauthorized", "denied", "missing"}:
                raise error
            left = await self._candidates()
            if used is None:
                used = self._use(left.pop(0) if left else None)
            challenges = challenges or used.challenges
            was_refused = header is not None or error.kind == "denied"
            while challenges:
                try:
                    if error.kind != "denied" and await used.challenged(header, challenges):
                        return
                except RegistryError as refused:
                    if refused.kind not in {"unauthorized", "denied"}:
                        raise
                    error, was_refused = refused, True
                if used.credential is not None and was_refused:
                    self.tried.append(used.credential)
                    if used.has_token and error.kind == "unauthorized":
                        error.kind = "denied"  # it knows who asks
                if not left:
                    break
                used, header, was_refused = self._use(left.pop(0)), None, False
                if error.kind == "denied":
                    error.kind = "unauthorized"
            raise error

    async def _candidates(self) -> list[Credential]:
        if self._left is None:
            found, looked = await self._keyring.find(self._key)
            if self._left is None:  # another request may have been faster
                self._left, self.looked = list(found), looked
        return self._left

    def _use(self, credential: Credential | None) -> Authorization:
        self._authorization = Authorization(
            self._connection, self._server or "", self.name, credential
        )
        return self._authorization

    async def _challenges_for_known(self) -> list[Challenge]:
        """Return how to authenticate where a registry answers strangers that there is nothing.

        Some servers hide private repositories in this way. Without credentials it does not matter.
        """
        if not await self._candidates():
            return []
        async with self._connection.send("GET", f"{self._server}/v2/") as answer:
            return parse_challenges(answer.challenges) if answer.status == 401 else []

    async def _address(self) -> str:
        """Return scheme and host; a server on loopback may speak plain HTTP, as for Docker."""
        if self._server is None:
            async with self._lock:
                if self._server is None:
                    self._server = await self._found()
        return self._server

    async def _found(self) -> str:
        chosen = self._connection.settings.of(self.host)
        if chosen.plain_http is not None:
            return f"http{'' if chosen.plain_http else 's'}://{self.host}"
        name = urlsplit(f"//{self.host}").hostname or ""
        if not is_loopback(name) or chosen.ca_file is not None or chosen.skip_verify:
            return f"https://{self.host}"
        try:
            async with self._connection.send("GET", f"https://{self.host}/v2/"):
                return f"https://{self.host}"
        except RegistryError as error:
            if error.kind == "certificate":
                raise
            return f"http://{self.host}"


async def retried(
    attempt: Callable[[], Awaitable[T]], connection: Connection, *, backoff: Backoff | None = None
) -> T:
    """Repeat what fails for a moment.

    Args:
        attempt: Started again after each such failure.
        connection: Its `Patience` says how often, and how long to wait.
        backoff: Delays; new ones by default.

    Raises:
        RegistryError: The last failure.
    """
    patience = connection.patience
    delays = backoff or Backoff(patience.base, patience.cap)
    while True:
        try:
            return await attempt()
        except RegistryError as error:
            delay = delays.next()
            if not error.is_transient or delays.failures >= patience.attempts:
                raise
            if not error.connected and not connection.has_answers:
                raise  # without a network, it is reported at once
            if error.retry_after is not None:
                if error.retry_after > patience.longest_wait:
                    raise
                delay = max(delay, error.retry_after)
        await asyncio.sleep(delay)
