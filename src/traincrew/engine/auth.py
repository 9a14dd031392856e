"""Credentials and TLS settings."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the field and the fix."""


class Credentials(Protocol):
    """Produces the ``Authorization`` header."""

    async def authorization(self) -> str | None:
        """Header value, or ``None`` when the connection itself authenticates."""
        ...

    async def refresh(self) -> bool:
        """Obtain new credentials after a 401; false when these cannot change."""
        ...


class StaticToken:
    """A bearer token that never changes."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}"

    async def authorization(self) -> str | None:
        """Header value."""
        return self._header

    async def refresh(self) -> bool:
        """A static token cannot be renewed."""
        return False


class TlsSettings:
    """Certificates and checks for ``https``."""

    def __init__(self, *, server_name: str | None = None) -> None:
        self.server_name = server_name
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The context for new connections."""
        if self._context is None:
            self._context = ssl.create_default_context()
        return self._context


def credentials_from_user(user: Mapping[str, Any], directory: Path) -> Credentials | None:
    """Choose the credentials of a kubeconfig ``user`` entry."""
    if token := user.get("token"):
        return StaticToken(str(token))
    return None
