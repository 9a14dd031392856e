"""What goes wrong between this program and a registry."""

from __future__ import annotations

from typing import Literal

__all__ = ["Kind", "RegistryError", "SettingsError"]

Kind = Literal[
    "unauthorized",  # 401: the registry wants credentials, or others
    "denied",  # 403: it knows who asks, and refuses
    "missing",  # 404
    "busy",  # 429
    "failing",  # 5xx
    "unreachable",  # no route, no name, cut off, silent
    "certificate",  # its certificate is not trusted
    "refused",  # what it answers is wrong or not safe to follow
    "platform",  # the image is for other machines
]


class RegistryError(Exception):
    """A request to a registry failed; the message says how, in one line, and not for which image.

    Attributes:
        kind: What to do about it.
        message: For users; it has no credentials and no signed addresses in it.
        retry_after: Seconds the registry asked to wait, if it did.
        expired: Whether the registry says that credentials have expired.
        connected: False if there was not even a connection.
    """

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        retry_after: float | None = None,
        expired: bool = False,
        connected: bool = True,
    ) -> None:
        super().__init__(message)
        self.kind: Kind = kind
        self.message = message
        self.retry_after = retry_after
        self.expired = expired
        self.connected = connected

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed a moment later."""
        return self.kind in {"busy", "failing", "unreachable"}

    @property
    def is_unanswered(self) -> bool:
        """Whether the registry has said nothing about the image: what it has now is unknown.

        What a network answers in its place, with a certificate or an answer of its own, counts as
        nothing.
        """
        return self.is_transient or self.kind in {"certificate", "refused"}


class SettingsError(ValueError):
    """The file of settings is invalid; the message names the file, the field and the fix."""
