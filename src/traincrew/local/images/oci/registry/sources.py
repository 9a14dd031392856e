"""Where an image may be had: the mirrors of its registry, and the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.registry.client import Repository, retried
from traincrew.local.images.oci.registry.explain import Mirrored, pull_error
from traincrew.local.images.oci.registry.failures import RegistryError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from traincrew.local.images.oci.registry.connection import Connection
    from traincrew.local.images.oci.registry.credentials import Keyring
    from traincrew.local.images.reference import ImageReference

__all__ = ["Sources"]

T = TypeVar("T")


class Sources:
    """The mirrors of a registry, and the registry.

    Args:
        reference: The image.
        connection: Its settings name the mirrors.
        credentials: Used for those that ask.
    """

    def __init__(
        self, reference: ImageReference, connection: Connection, credentials: Keyring
    ) -> None:
        registry, _, name = reference.repository.partition("/")
        settings = connection.settings
        self.connection = connection
        self._reference = reference
        self._failed: list[Mirrored] = []
        self._repositories = [
            Repository(connection, mirror.host, f"{mirror.path}/{name}".lstrip("/"), credentials)
            for mirror in settings.of(registry).mirrors
        ]
        server = settings.server_of(registry)
        self._repositories.append(
            Repository(connection, server, name, credentials, known_as=registry)
        )

    async def first(self, ask: Callable[[Repository], Awaitable[T]], *, again: bool = True) -> T:
        """Return the answer of the first source that has one.

        Args:
            ask: Asks one source.
            again: Whether the registry is asked again after a failure of a moment; a mirror is not.

        Raises:
            RegistryError: That of the registry itself.
            ImageContentError: As `RegistryError`.
        """
        for repository in self._repositories[:-1]:
            try:
                return await ask(repository)
            except (RegistryError, ImageContentError) as error:
                self.leave(repository, str(error))
        registry = self._repositories[-1]
        if not again:
            return await ask(registry)
        return await retried(lambda: ask(registry), self.connection)

    def leave(self, mirror: Repository, why: str) -> bool:
        """Ask a mirror no more: what it lacks or spoils now it will hardly have a moment later.

        Returns:
            False if it is no mirror, but the registry itself.
        """
        if mirror is self._repositories[-1]:
            return False
        if mirror in self._repositories:  # another layer may have seen it first
            self._repositories.remove(mirror)
            self._failed.append((mirror.host, why))
        return True

    async def guarded(self, work: Awaitable[T]) -> T:
        """Return a result, or raise what users read."""
        try:
            return await work
        except BaseExceptionGroup as group:
            error = _chosen(group)
            if not isinstance(error, Exception):
                raise
            raise self._explained(error) from error
        except (RegistryError, ImageContentError, OSError) as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> Exception:
        if not isinstance(error, RegistryError | ImageContentError | OSError):
            return error
        return pull_error(
            self._reference,
            error,
            self._repositories[-1],
            self.connection.settings,
            self._failed,
        )


def _chosen(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception of a group that says most."""
    found = group.exceptions[0]
    return _chosen(found) if isinstance(found, BaseExceptionGroup) else found
