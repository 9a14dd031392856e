"""The embedded cluster for Python programs: start it, use it, and nothing of it is left.

    with traincrew.LocalCluster() as cluster:
        subprocess.run(["kubectl", "get", "nodes"], env=cluster.environment)
        cluster.client.create(yaml.safe_load(manifest))
        job = cluster.client.wait("chainerjob", "digits", has_ended, timeout=300)

It is synchronous, and runs beside any event loop: in scripts, tests and notebooks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from traincrew.cli.errors import BadInput
from traincrew.sdk.background import BackgroundServer

if TYPE_CHECKING:
    import asyncio
    import os
    from collections.abc import Iterable

    from traincrew.cli.cluster.embedded import Embedded
    from traincrew.local.inprocess import InProcessServer


class LocalCluster(BackgroundServer):
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

    Raises:
        BadInput: An argument cannot be used, when it starts.
        CommandFailed: A part did not start.
    """

    _name = "cluster"

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
        super().__init__()
        self._training = training
        self._nodes = nodes
        self._gpus = gpus
        self._images = tuple(str(Path(path).absolute()) for path in images)
        self._sandbox = sandbox
        self._directory = None if directory is None else Path(directory).absolute()
        self._embedded: Embedded | None = None
        self._serving: asyncio.Task[None] | None = None

    def _check(self) -> None:
        for path in self._images:
            if not Path(path).is_file():
                raise BadInput(f"images: {path} is no file")

    async def _start(self) -> InProcessServer:
        import asyncio

        from traincrew.cli.cluster.embedded import Embedded
        from traincrew.cli.cluster.options import Options

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
        self._serving = asyncio.create_task(self._embedded.run(), name="cluster")
        return self._embedded.cluster

    async def _stop(self) -> None:
        import asyncio

        if self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
            self._serving = None
        embedded, self._embedded = self._embedded, None
        if embedded is not None:
            await embedded.stop()
