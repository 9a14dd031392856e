"""Pulling an image: its manifest for this machine, and the layers that are not stored yet."""

from __future__ import annotations

import asyncio
import platform
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.configuration import parse_config
from traincrew.local.images.oci.documents import Manifest, ManifestSearch, check_digest
from traincrew.local.images.oci.platforms import platform_of
from traincrew.local.images.oci.registry.connection import Connection, Patience
from traincrew.local.images.oci.registry.failures import RegistryError
from traincrew.local.images.oci.registry.progress import Progress, Report, Transfer
from traincrew.local.images.oci.registry.sources import Sources
from traincrew.local.images.oci.registry.transfer import fetch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from contextlib import AbstractContextManager

    from traincrew.local.images.oci.model import Descriptor, LayerStore, StoredImage
    from traincrew.local.images.oci.registry.client import Document, Repository
    from traincrew.local.images.oci.registry.credentials import Keyring
    from traincrew.local.images.oci.registry.progress import Phase
    from traincrew.local.images.oci.registry.settings import RegistrySettings
    from traincrew.local.images.reference import ImageReference

__all__ = ["pull", "resolve"]

_FETCHES = 3
"""Blobs of one image that are fetched at the same time, as Docker does."""
_UNPACKERS = 2
"""Layers that are unpacked at the same time: it takes a processor each."""
_REPORT_SECONDS = 0.1

T = TypeVar("T")


async def resolve(
    reference: ImageReference,
    *,
    credentials: Keyring,
    settings: RegistrySettings,
    patience: Patience | None = None,
) -> str:
    """Return the digest that the registry has for a name: for the pull policy ``Always``.

    It is the `StoredImage.digest` of an image that need not be pulled again.

    Raises:
        ImagePullError: ``ErrImagePull``.
    """
    async with Connection(settings, patience) as connection:
        sources = Sources(reference, connection, credentials)

        async def ask(repository: Repository) -> str:
            wanted = _wanted(reference)
            try:
                digest = await repository.digest(wanted)
            except RegistryError as error:
                if error.kind != "refused":
                    raise
                digest = None  # not every registry knows HEAD
            return digest or (await repository.manifest(wanted)).digest

        return await sources.guarded(sources.first(ask))


async def pull(
    reference: ImageReference,
    store: LayerStore,
    *,
    credentials: Keyring,
    settings: RegistrySettings,
    progress: Report | None = None,
    patience: Patience | None = None,
    machine: str | None = None,
) -> StoredImage:
    """Store an image of a registry; what is stored already is not fetched.

    Args:
        reference: The image.
        store: Where to.
        credentials: Used when the registry asks.
        settings: Mirrors and certificates.
        progress: Called on the event loop, after every change.
        patience: How long to try.
        machine: As ``uname -m`` prints it; this machine's by default.

    Raises:
        ImagePullError: ``ErrImagePull``; the message says what to do.
    """
    async with Connection(settings, patience) as connection:
        sources = Sources(reference, connection, credentials)
        one = _Pull(reference, store, sources, progress, machine or platform.machine())
        return await sources.guarded(one.run())


def _wanted(reference: ImageReference) -> str:
    """Return what to ask for: a digest, or a tag.

    Raises:
        ImageContentError: The digest is one that nothing here can check.
    """
    if reference.digest:
        return check_digest(reference.digest, "the image")
    return reference.tag or "latest"


class _Pull:
    """One pull of one image."""

    def __init__(
        self,
        reference: ImageReference,
        store: LayerStore,
        sources: Sources,
        report: Report | None,
        machine: str,
    ) -> None:
        self._reference = reference
        self._store = store
        self._sources = sources
        self._report = report
        self._platform = platform_of(machine)
        self._fetches = asyncio.Semaphore(_FETCHES)
        self._unpacks = asyncio.Semaphore(_UNPACKERS)
        self._threads = ThreadPoolExecutor(_FETCHES + _UNPACKERS, "pull")
        self._transfers: dict[str, Transfer] = {}

    async def run(self) -> StoredImage:
        try:
            return await self._run()
        finally:
            # Nothing runs in them any more: each call is awaited, cancelled or not.
            self._threads.shutdown(wait=False)

    async def _run(self) -> StoredImage:
        name = str(self._reference)
        stored = await self._in_thread(self._store.find, name)
        if stored is not None and stored.digest == self._reference.digest:
            return stored
        top = await self._document(_wanted(self._reference))
        if stored is not None and stored.digest == top.digest:
            return stored
        manifest, content = await self._manifest(top)
        configuration = await self._sources.first(
            lambda repository: repository.small_blob(manifest.config)
        )
        config = parse_config(configuration, manifest.layers, self._platform)
        await self._layers(manifest.layers, config.diff_ids)
        return await self._in_thread(
            self._store.add_image, [name], content, configuration, top.digest
        )

    async def _document(self, reference: str) -> Document:
        return await self._sources.first(lambda repository: repository.manifest(reference))

    async def _manifest(self, document: Document) -> tuple[Manifest, bytes]:
        """Follow indexes to the manifest for this machine; return it, and its bytes."""
        search = ManifestSearch(self._platform)
        found = search.follow(document.content, document.media_type)
        while not isinstance(found, Manifest):
            document = await self._document(found.digest)
            if len(document.content) != found.size:
                raise ImageContentError(
                    f"the manifest {found.digest} has {len(document.content)} bytes, and its index "
                    f"says {found.size}"
                )
            found = search.follow(document.content, document.media_type)
        return found, document.content

    async def _layers(self, blobs: Sequence[Descriptor], diff_ids: Sequence[str]) -> None:
        wanted = {diff_id: blob for blob, diff_id in zip(blobs, diff_ids, strict=True)}
        self._transfers = {
            diff_id: Transfer(blob.digest, "waiting", 0, blob.size)
            for diff_id, blob in wanted.items()
        }
        self._tell(None)
        async with asyncio.TaskGroup() as group:
            for diff_id, blob in wanted.items():
                group.create_task(self._layer(blob, diff_id))

    async def _layer(self, blob: Descriptor, diff_id: str) -> None:
        await self._fetches.acquire()
        fetching = True
        try:
            if await self._in_thread(self._store.has_layer, diff_id):
                self._change(diff_id, "done", blob.size)
                return
            async with _held(self._store.lock(blob.digest)):
                # Somebody else may have stored it meanwhile.
                if not await self._in_thread(self._store.has_layer, diff_id):
                    source = await self._fetch(blob, diff_id)
                    self._fetches.release()
                    fetching = False
                    await self._unpack(blob, diff_id, source)
            self._change(diff_id, "done", blob.size)
        finally:
            if fetching:
                self._fetches.release()

    async def _fetch(self, blob: Descriptor, diff_id: str) -> Repository | None:
        """Fetch a blob; return where all of it is from, or None if an earlier pull has begun it."""
        path = await self._in_thread(self._store.partial, blob.digest)
        resumed = path.exists() and path.stat().st_size > 0

        async def from_one(repository: Repository) -> Repository:
            await fetch(
                self._sources.connection,
                repository,
                blob,
                path,
                report=lambda done: self._change(diff_id, "fetching", done),
                threads=self._threads,
            )
            return repository

        found = await self._sources.first(from_one, again=False)
        return None if resumed else found

    async def _unpack(self, blob: Descriptor, diff_id: str, source: Repository | None) -> None:
        """Unpack a blob. If its bytes are wrong, fetch it again where that may help."""
        while True:
            try:
                return await self._add(blob, diff_id)
            except ImageContentError as error:
                # Nobody has checked what an earlier pull, or a machine that lost power, had left.
                if source is not None and not self._sources.leave(source, str(error)):
                    raise
            source = await self._fetch(blob, diff_id)

    async def _add(self, blob: Descriptor, diff_id: str) -> None:
        path = await self._in_thread(self._store.partial, blob.digest)
        loop = asyncio.get_running_loop()
        stopped = threading.Event()
        shown = 0.0

        def progress(done: int) -> None:
            nonlocal shown
            if stopped.is_set():
                raise _StoppedError
            if (now := time.monotonic()) - shown >= _REPORT_SECONDS:
                shown = now
                loop.call_soon_threadsafe(self._change, diff_id, "unpacking", done)

        async with self._unpacks:
            self._change(diff_id, "unpacking", 0)
            await self._in_thread(
                self._store.add_layer, path, blob, diff_id, progress, stop=stopped.set
            )

    async def _in_thread(
        self, function: Callable[..., T], *arguments: object, stop: Callable[[], None] | None = None
    ) -> T:
        """Call a function that blocks; it has ended when this ends, cancelled or not."""
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, function, *arguments)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if stop is not None:
                stop()
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # retrieved, so that asyncio does not log it
            raise

    def _change(self, diff_id: str, phase: Phase, done: int) -> None:
        before = self._transfers[diff_id]
        if before.phase == "done":  # a late report of a thread
            return
        self._transfers[diff_id] = Transfer(before.digest, phase, done, before.total)
        self._tell(self._transfers[diff_id])

    def _tell(self, changed: Transfer | None) -> None:
        if self._report is not None:
            self._report(Progress(tuple(self._transfers.values()), changed))


class _StoppedError(Exception):
    """Unpacking has been cancelled."""


@asynccontextmanager
async def _held(lock: AbstractContextManager[None]) -> AsyncIterator[None]:
    """Enter a context that blocks, in a thread of its own: others may hold the lock for long."""
    loop = asyncio.get_running_loop()
    entered: asyncio.Future[None] = loop.create_future()
    given_up = False

    def settle(error: BaseException | None) -> None:
        if error is not None:
            entered.set_exception(error)
            entered.exception()  # retrieved, so that asyncio does not log it
        elif given_up:
            lock.__exit__(None, None, None)
        else:
            entered.set_result(None)

    def enter() -> None:
        error: BaseException | None = None
        try:
            lock.__enter__()
        except BaseException as raised:  # noqa: BLE001 - raised where it is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(settle, error)
        except RuntimeError:  # the loop has ended
            if error is None:
                lock.__exit__(None, None, None)

    # A program that ends does not wait for a lock of others.
    threading.Thread(target=enter, name="pull-lock", daemon=True).start()
    try:
        await asyncio.shield(entered)
    except asyncio.CancelledError:
        given_up = True
        if entered.done() and entered.exception() is None:
            lock.__exit__(None, None, None)
        raise
    try:
        yield
    finally:
        lock.__exit__(None, None, None)
