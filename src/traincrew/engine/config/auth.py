"""Credentials that go into the ``Authorization`` header."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Protocol

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

# As in client-go: bound service account tokens are rotated on disk well before they expire.
_REREAD_PERIOD = 60.0


class Credentials(Protocol):
    """Produces the ``Authorization`` header."""

    async def authorization(self) -> str | None:
        """Header value, or ``None`` when the connection itself authenticates.

        Raises:
            ConfigError: No credentials can be obtained.
        """
        ...

    async def refresh(self, rejected: str | None) -> bool:
        """Obtain new credentials after the server answered 401 to this header value.

        Returns:
            Whether the request is worth retrying.
        """
        ...


class StaticCredentials:
    """A header that never changes: a token, or a name and password."""

    def __init__(self, header: str) -> None:
        self._header = header

    @classmethod
    def token(cls, token: str) -> StaticCredentials:
        """Return a bearer token."""
        return cls(f"Bearer {token}")

    @classmethod
    def basic(cls, username: str, password: str) -> StaticCredentials:
        """Return credentials for HTTP basic authentication."""
        return cls("Basic " + b64encode(f"{username}:{password}".encode()).decode())

    async def authorization(self) -> str | None:
        """Header value."""
        return self._header

    async def refresh(self, rejected: str | None) -> bool:  # noqa: ARG002 - protocol
        """Return false: a static header cannot be renewed."""
        return False


class FileToken:
    """A bearer token in a file that is rotated from outside.

    Args:
        path: The file.
        clock: Source of time.
    """

    def __init__(self, path: Path, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path = path
        self._clock = clock
        self._header: str | None = None
        self._read_at = 0.0

    async def authorization(self) -> str | None:
        """Return the header value; the file is reread once a minute.

        Raises:
            ConfigError: The file has never contained a token.
        """
        if self._header is None or self._clock.monotonic() - self._read_at >= _REREAD_PERIOD:
            self._read()
        return self._header

    async def refresh(self, rejected: str | None) -> bool:
        """Reread the file."""
        if self._header == rejected:
            self._read()
        return self._header != rejected

    def _read(self) -> None:
        self._read_at = self._clock.monotonic()
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            if self._header is None:
                raise ConfigError(f"tokenFile {self._path}: {error.strerror}") from error
            return  # being replaced at this moment; the old token stays valid for a while
        if token:
            self._header = f"Bearer {token}"
        elif self._header is None:
            raise ConfigError(f"tokenFile {self._path} is empty")
