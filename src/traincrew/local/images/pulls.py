"""Container images for pods: those that are stored, and pulls of others from their registries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.local.images.errors import ImagePullError
from traincrew.local.images.installation.uv import Notice
from traincrew.local.images.oci.running import environment_of
from traincrew.local.images.sources import may_use_stored

if TYPE_CHECKING:
    from traincrew.local.images.catalog import Definition
    from traincrew.local.images.environment import Environment
    from traincrew.local.images.oci.model import LayerStore, StoredImage
    from traincrew.local.images.oci.registry import Progress, PullSecret, RegistrySettings
    from traincrew.local.images.reference import ImageReference
    from traincrew.local.images.sources import Choice, Source

__all__ = ["ContainerPulls", "Lookup", "PullRequest"]

Report = Callable[[str], None]

_STEP_SECONDS = 2.0
"""Between two lines about a pull."""


class PullRequest(Struct, frozen=True, kw_only=True):
    """How a container wants its image.

    Attributes:
        always: Ask the registry for the image that the name has now (`imagePullPolicy: Always`).
        source: Where it may come from; None for the store's own setting.
        secrets: Credentials of the pod.
    """

    always: bool = False
    source: Source | None = None
    secrets: tuple[PullSecret, ...] = ()


class Lookup(Struct, frozen=True):
    """What an image name stands for.

    Attributes:
        reference: The name, in full.
        meaning: An environment, or which container image is meant.
        stored: The container image, if it is on this machine.
        is_present: Nothing is to be built or fetched, as far as known here.
    """

    reference: ImageReference
    meaning: Definition | Choice
    stored: StoredImage | None
    is_present: bool


class StaleNotice(Notice):
    """A stored image is used without asking the registry for a newer one."""

    __slots__ = ()
    reason = "ImageNotRenewed"


class ContainerPulls:
    """Container images as what containers are started from.

    Args:
        store: Keeps the images.
    """

    def __init__(self, store: LayerStore) -> None:
        self._store = store
        self._turns = _Turns()

    def stored(self, reference: ImageReference) -> StoredImage | None:
        """Return an image that is on this machine; None also if its directory cannot be read.

        A pull says then what is wrong.
        """
        try:
            return self._store.find(str(reference))
        except OSError:
            return None

    async def pull(
        self,
        image: str,
        reference: ImageReference,
        request: PullRequest,
        report: Report,
        stored: StoredImage | None = None,
    ) -> Environment:
        """Return an image; fetch it first if it is not there, or is to be asked for.

        Where the registry does not answer, what is stored is used, with a `StaleNotice`:
        `may_use_stored`.

        Args:
            image: As the container names it.
            reference: The same, in full.
            request: What the container wants.
            report: Receives lines for users.
            stored: As `stored` has just returned it.

        Raises:
            ImagePullError: It cannot be had.
        """
        async with self._turns.take(str(reference)) as waited:
            if stored is None or waited:  # what one pod has pulled is there for the others
                stored = await asyncio.to_thread(self.stored, reference)
            if stored is None:
                stored = await self._fetch(reference, request, report)
            elif request.always and stored.digest:
                stored = await self._renewed(image, reference, stored, request, report)
        place = self._store.place(stored)
        try:
            return await asyncio.to_thread(environment_of, reference, stored, place)
        except OSError as error:
            why = f'image "{image}": it was removed meanwhile'
            raise ImagePullError("ErrImagePull", why, permanent=False) from error

    async def _renewed(
        self,
        image: str,
        reference: ImageReference,
        stored: StoredImage,
        request: PullRequest,
        report: Report,
    ) -> StoredImage:
        from traincrew.local.images.oci.registry import resolve, user_keyring

        try:
            keyring = user_keyring(request.secrets)
            digest = await resolve(reference, credentials=keyring, settings=_settings())
            if digest == stored.digest:
                return stored
            return await self._fetch(reference, request, report)
        except ImagePullError as error:
            if not may_use_stored(unanswered=error.unanswered, imported=stored.imported):
                raise
            why = error.message.removeprefix(f'image "{image}": ')
            report(StaleNotice(f"the stored image is used: {why}"))
            return stored

    async def _fetch(
        self, reference: ImageReference, request: PullRequest, report: Report
    ) -> StoredImage:
        # Imported when an image is pulled: HTTP and credentials are not needed to run one.
        from traincrew.local.images.oci.registry import pull, user_keyring

        return await pull(
            reference,
            self._store,
            credentials=user_keyring(request.secrets),
            settings=_settings(),
            progress=_Lines(report).update,
        )


def _settings() -> RegistrySettings:
    """Return the settings of registries.

    Raises:
        ImagePullError: Their file is invalid.
    """
    from traincrew.local.images.oci.registry import load_settings

    try:
        return load_settings()
    except ValueError as error:
        raise ImagePullError("ErrImagePull", str(error)) from error


class _Turns:
    """One pull of a name at a time."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def take(self, name: str) -> AsyncIterator[bool]:
        """Wait for others that have the name; yield whether there were any."""
        lock, users = self._taken.get(name) or (asyncio.Lock(), 0)
        self._taken[name] = lock, users + 1
        waited = lock.locked()
        try:
            async with lock:
                yield waited
        finally:
            lock, users = self._taken.pop(name)
            if users > 1:
                self._taken[name] = lock, users - 1


class _Lines:
    """The progress of a pull as lines, not more than one in two seconds."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._next = 0.0

    def update(self, progress: Progress) -> None:
        """Report how far the pull is, unless that was just said."""
        now = asyncio.get_running_loop().time()
        if now < self._next:
            return
        self._next = now + _STEP_SECONDS
        fetched, total = progress.fetched / 1e6, progress.total / 1e6
        unpacked = f"{progress.finished} of {len(progress.layers)} layers unpacked"
        self._report(f"{fetched:.0f} of {total:.0f} MB, {unpacked}")
