"""The embedded cluster for the commands, with our kinds installed and the operator running."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from traincrew.cli.cluster.merging import credential_files
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.cli.options import read_accelerators

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.api.kind import Kind
    from traincrew.cli.cluster.options import Options
    from traincrew.local.cluster import LocalCluster
    from traincrew.local.leftovers import Removed
    from traincrew.local.node import ClaimContents, PodOptions, Written
    from traincrew.operator.options import ProgressOptions
    from traincrew.plan.shared.templates.accelerators import Accelerators

READY_SECONDS = 30.0
_LOOPBACK = "127.0.0.1"
FIELD_MANAGER = "traincrew"
_KUBECTL = "kubectl"
"""The field manager of `kubectl apply --server-side`."""


class Embedded:
    """A cluster in this process.

    Args:
        options: Its options.
        directory: Stores its state between starts; None for a cluster that ends with this process.
        on_pull: Called with (image, progress).
        pods: Additions to every pod; by default the directory of the options.
        on_removed: Called with a line if the start removed what killed processes had left.
    """

    def __init__(
        self,
        options: Options,
        directory: Path | None = None,
        on_pull: Callable[[str, str], None] | None = None,
        pods: PodOptions | None = None,
        on_removed: Callable[[str], None] | None = None,
    ) -> None:
        self._options = options
        self._directory = directory
        self._on_pull = on_pull
        self._pods = pods
        self._on_removed = on_removed
        self._operator: asyncio.Task[None] | None = None
        self._stop_operator = asyncio.Event()
        self._stopped = False
        self._kinds: list[str] = []
        """Kinds of other projects whose definitions have our version."""
        self._accelerators: Accelerators
        self.cluster: LocalCluster

    async def start(self) -> None:
        """Start everything; on return the API is ready, our kinds are installed, the operator runs.

        Raises:
            BadInput: An option cannot be used.
            CommandFailed: A part did not start.
        """
        from traincrew.engine.limits import raise_file_limit
        from traincrew.local.apiserver.http.listening import PortInUseError
        from traincrew.local.cluster import ClusterOptions, LocalCluster, virtual_nodes
        from traincrew.local.images import CatalogError
        from traincrew.local.node import (
            NamespacesUnavailableError,
            NetworksTakenError,
            PodOptions,
            count_gpus,
        )
        from traincrew.local.statelock import StateInUseError

        raise_file_limit()
        options = self._options
        self._accelerators = read_accelerators(
            Path(options.controller_config_file) if options.controller_config_file else None
        )
        gpus = options.gpus
        if gpus is None:
            gpus = await asyncio.to_thread(count_gpus)
        nodes = virtual_nodes(options.nodes, gpus=gpus)
        try:
            self.cluster = LocalCluster(
                ClusterOptions(
                    directory=self._directory,
                    nodes=tuple(nodes),
                    image_catalogs=image_catalogs(options),
                    image_source=options.image_source,
                    sandbox=self._sandbox(),
                    scheduler_names=options.scheduler_names,
                    pods=msgspec.structs.replace(
                        self._pods or PodOptions(host_directory=Path(options.directory)),
                        admin_kubeconfig=options.admin_in_pods,
                    ),
                    secrets=credential_files,
                    on_pull=self._on_pull,
                    on_removed=self._removed,
                )
            )
            await self.cluster.start()
        except (CatalogError, NamespacesUnavailableError) as error:
            raise BadInput(str(error)) from error
        except (NetworksTakenError, PortInUseError, StateInUseError) as error:
            raise CommandFailed(str(error)) from error
        try:
            if self._options.kinds:
                await self._install()
            if self._options.operator:
                await self._start_operator()
        except BaseException:
            await self.stop(keep_pods=self._directory is not None)
            raise

    def _sandbox(self) -> Literal["auto", "namespaces", "bare"]:
        """Return how pods are isolated.

        Training jobs need more isolation than plain processes have: fail early where they cannot
        run.
        """
        if self._options.sandbox == "auto" and self._options.kinds:
            return "namespaces"
        return self._options.sandbox

    def _removed(self, removed: Removed) -> None:
        if self._on_removed is not None:
            processes = f"{removed.directories} killed process" + (
                "es" if removed.directories != 1 else ""
            )
            size = f"{removed.size / 1024**2:.0f} MiB"
            place = tempfile.gettempdir()
            self._on_removed(f"removed what {processes} had left in {place}: {size}")

    async def _install(self) -> None:
        from traincrew.api.crd import definition, definitions
        from traincrew.api.kinds import INSTALLED, OF_OTHERS
        from traincrew.engine.errors import ApiError
        from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS

        client = self.cluster.client
        try:
            for document in map(definition, INSTALLED):
                await client.apply(
                    CUSTOM_RESOURCE_DEFINITIONS, document, field_manager=FIELD_MANAGER
                )
            for kind in OF_OTHERS:
                served = [await self._install_of_others(document) for document in definitions(kind)]
                if all(served):
                    self._kinds.append(kind.kind)
                for document in kind.objects:
                    await self._create_of_others(kind, document)
        except ApiError as error:
            raise CommandFailed(f"cannot install our kinds: {error.message}") from error

    async def _install_of_others(self, document: dict[str, Any]) -> bool:
        """Install the definition of another project's kind, unless the user has installed theirs.

        Return whether its version is served: theirs may have other ones only.

        It is applied in the name of the user's kubectl. So `kubectl apply --server-side` replaces
        all of it with theirs, without a conflict, and drops the annotation.
        """
        from traincrew.engine.errors import NotFoundError
        from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS
        from traincrew.local.apiserver.kinds.apiextensions.custom_resource_definition import (
            STANDS_IN,
        )

        client, metadata = self.cluster.client, document["metadata"]
        with contextlib.suppress(NotFoundError):
            found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, metadata["name"])
            if not _is_ours(found):
                (version,) = document["spec"]["versions"]
                return any(
                    each["name"] == version["name"] and each["served"]
                    for each in found["spec"]["versions"]
                )
        marked = {**document, "metadata": {**metadata, "annotations": {STANDS_IN: "true"}}}
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, marked, field_manager=_KUBECTL)
        return True

    async def _create_of_others(self, kind: Kind, document: dict[str, Any]) -> None:
        """Create an object to which jobs refer, unless there is one of its name.

        Like the definitions, it is created in the name of the user's kubectl. Where the definition
        is the user's, so are the objects.
        """
        from traincrew.engine.errors import AlreadyExistsError
        from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

        (resource,) = (
            Resource(each.group, each.version, each.plural, each.kind, each.namespaced)
            for each in kind.referenced
            if each.kind == document["kind"]
        )
        client, name = self.cluster.client, f"{resource.plural}.{resource.group}"
        if not _is_ours(await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)):
            return
        with contextlib.suppress(AlreadyExistsError):
            await client.create(resource, document, field_manager=_KUBECTL)

    async def _start_operator(self) -> None:
        from traincrew.operator.app import run_operator
        from traincrew.operator.options import OperatorOptions

        ready = asyncio.Event()
        config = self.cluster.client.config
        # There is no other operator in this cluster: leader election would only take time.
        options = OperatorOptions(
            leader_elect=False,
            # Nor is there an operator of another project, unless the user installs one.
            kinds=tuple(self._kinds),
            accelerators=self._accelerators,
            progress=self._progress() if self._options.progress else None,
        )
        running = run_operator(config, options, self._stop_operator, on_ready=ready.set)
        self._operator = asyncio.create_task(running, name="operator")
        waiting = asyncio.create_task(ready.wait())
        done, _ = await asyncio.wait(
            {waiting, self._operator},
            timeout=READY_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        waiting.cancel()
        if self._operator in done:
            self._operator.result()
            raise CommandFailed("the operator ended while it was starting")
        if not done:
            raise CommandFailed(f"the operator is not ready after {READY_SECONDS:.0f} s")

    def _progress(self) -> ProgressOptions | None:
        """Return where programs report their progress; pods find it at the same place forever.

        Without a file system of their own they would not find the files that they need for it.
        """
        from traincrew.operator.options import ProgressOptions

        if not self.has_namespaces:
            return None
        stored = self._directory / "progress-port" if self._directory is not None else None
        before = int(stored.read_text()) if stored is not None and stored.is_file() else 0
        port = _free_port(before) or _free_port(0)
        if stored is not None and port != before:
            stored.write_text(str(port))
        return ProgressOptions(host=_LOOPBACK, port=port, namespace="kube-system")

    @property
    def has_namespaces(self) -> bool:
        """Whether pods have a file system of their own."""
        return self.cluster.node.capabilities.namespaces

    async def end_pods(self) -> tuple[list[Written], list[ClaimContents]]:
        """Stop all pods at once; return what they wrote outside of volumes, and to claims."""
        await self.cluster.stop_pods()
        node = self.cluster.node
        return node.written(), await node.claim_contents()

    def describe_sandbox(self) -> str:
        """Return a description of how pods are isolated."""
        if self.cluster.node.capabilities.mode == "bare":
            return "pods are plain processes (see `traincrew doctor`)"
        return "pods are sandboxed processes"

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            Exception: The error of the part that ended.
        """
        parts = [asyncio.create_task(self.cluster.run(), name="cluster")]
        if self._operator is not None:
            parts.append(self._operator)
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            parts[0].cancel()
        for part in done:
            part.result()
        raise RuntimeError("a part of the cluster ended unexpectedly")

    async def stop(self, *, keep_pods: bool = False) -> None:
        """Stop the cluster, and its pods unless the next start is to adopt them."""
        if self._stopped:
            return
        self._stopped = True
        self._stop_operator.set()
        if self._operator is not None:
            self._operator.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._operator
        if hasattr(self, "cluster"):
            await self.cluster.stop(keep_pods=keep_pods)


def _is_ours(definition: dict[str, Any]) -> bool:
    """Return whether a definition of another project's kind is as it was installed here."""
    from traincrew.local.apiserver.kinds.apiextensions.custom_resource_definition import STANDS_IN

    metadata = definition["metadata"]
    managers = {
        (entry.get("manager"), entry.get("operation"))
        for entry in metadata.get("managedFields") or ()
        if not entry.get("subresource")
    }
    return STANDS_IN in (metadata.get("annotations") or {}) and managers == {(_KUBECTL, "Apply")}


def _free_port(wanted: int) -> int:
    """Return a port that nobody listens on, or 0: the one that is wanted, or any if that is 0."""
    try:
        with socket.create_server((_LOOPBACK, wanted)) as found:
            port: int = found.getsockname()[1]
            return port
    except OSError:
        return 0


def image_catalogs(options: Options) -> tuple[Path, ...]:
    """Return the image catalogs in order of lookup; the shipped catalog is the last."""
    from traincrew.local.images import user_catalogs

    return (*map(Path, options.images), *user_catalogs())
