"""The embedded cluster for Python programs: start it, use it, and nothing of it is left.

    with traincrew.LocalCluster() as cluster:
        subprocess.run(["kubectl", "get", "nodes"], env=cluster.environment)
        cluster.client.create(yaml.safe_load(manifest))
        job = cluster.client.wait("chainerjob", "digits", has_ended, timeout=300)

It is synchronous, and runs beside any event loop: in scripts, tests and notebooks.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from traincrew.cli.errors import BadInput
from traincrew.local.background import BackgroundLoop
from traincrew.sdk.audit import Audit
from traincrew.sdk.client import USER_AGENT, ClusterClient
from traincrew.sdk.faults import Faults

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable
    from types import TracebackType

    from traincrew.cli.cluster.embedded import Embedded
    from traincrew.engine.client import Client


class LocalCluster:
    """A Kubernetes-compatible cluster in this process; pods are processes on this machine.

    Args:
        training: Install the training kinds and run their operator. Without them the cluster is a
            plain one, for other operators and their tests.
        nodes: Number of virtual nodes.
        gpus: GPUs of the nodes together, pretended if the machine has fewer; None means those of
            this machine.
        images: Files that say what image names stand for (docs/guides/environments.md).
        sandbox: How pods are isolated; ``auto`` uses namespaces where the machine has them, and
            distributed jobs need them.
        directory: Keeps the state between starts, mode 0700; None means that it ends with the
            cluster.

    Attributes:
        audit: What clients have asked for; see `Audit`.
        faults: Faults to inject into requests; see `Faults`.

    Raises:
        BadInput: An argument cannot be used, when it starts.
        CommandFailed: A part did not start.
    """

    def __init__(
        self,
        *,
        training: bool = True,
        nodes: int = 1,
        gpus: int | None = None,
        images: Iterable[str | os.PathLike[str]] = (),
        sandbox: Literal["auto", "namespaces", "bare"] = "auto",
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        if nodes < 1:
            raise ValueError("nodes must be at least 1")
        self._training = training
        self._nodes = nodes
        self._gpus = gpus
        self._images = tuple(str(Path(path).absolute()) for path in images)
        self._sandbox = sandbox
        self._directory = None if directory is None else Path(directory).absolute()
        self._loop: BackgroundLoop | None = None
        self._embedded: Embedded | None = None
        self._serving: asyncio.Task[None] | None = None
        self._own_client: Client | None = None
        self._client: ClusterClient | None = None
        self.audit = Audit()
        self.faults = Faults(self._expire_watches)

    # -- life cycle -----------------------------------------------------------------------------

    def start(self) -> Self:
        """Start it; on return the API is served. A started cluster stays as it is."""
        if self._loop is not None:
            return self
        for path in self._images:
            if not Path(path).is_file():
                raise BadInput(f"images: {path} is no file")
        self._loop = BackgroundLoop("traincrew-cluster")
        try:
            self._loop.call(self._start())
        except BaseException:
            self.stop()
            raise
        return self

    async def _start(self) -> None:
        import asyncio

        from traincrew.cli.cluster.embedded import Embedded
        from traincrew.cli.cluster.options import Options

        assert self._loop is not None
        self._embedded = Embedded(
            Options(
                nodes=self._nodes,
                gpus=self._gpus,
                images=self._images,
                sandbox=self._sandbox,
                operator=self._training,
                kinds=self._training,
                directory=str(Path.cwd()),
            ),
            self._directory,
        )
        await self._embedded.start()
        server = self._embedded.cluster.server
        server.audit, server.faults = self.audit.record, self.faults.choose
        # Of its own, so that audit and faults tell it from the controllers.
        self._own_client = self._embedded.cluster.make_client(USER_AGENT)
        self._client = ClusterClient(self._own_client, self._loop)
        self._serving = asyncio.create_task(self._embedded.run(), name="cluster")

    def stop(self) -> None:
        """End its pods, and everything else of it."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            loop.call(self._stop())
        finally:
            loop.close()
            self._embedded = self._client = self._own_client = None

    async def _stop(self) -> None:
        import asyncio

        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
            self._serving = None
        if self._own_client is not None:
            await self._own_client.close()
        if self._embedded is not None:
            await self._embedded.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- access -----------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file (mode 0600) for any Kubernetes client, while the cluster runs."""
        return Path(self._started().cluster.kubeconfig_path)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of this process, with ``KUBECONFIG`` set, for programs to be started."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    @property
    def client(self) -> ClusterClient:
        """A client with plain dictionaries, of the cluster's owner."""
        self._started()
        assert self._client is not None
        return self._client

    def _expire_watches(self, resource: str | None) -> int:
        server = self._started().cluster.server
        assert self._loop is not None

        async def expire() -> int:
            return server.expire_watches(resource)

        return self._loop.call(expire())

    def _started(self) -> Embedded:
        if self._embedded is None:
            raise RuntimeError("the cluster is not running; use `with LocalCluster() as cluster:`")
        return self._embedded
