"""`traincrew.run`: run the jobs of a manifest to their end, and return what happened as plain data.

    outcome = traincrew.run("chainerjob.yaml")
    assert outcome.succeeded, outcome.jobs[0].reason
    outcome.metrics["loss"][-1]

It is `traincrew run` for programs, notebooks and tests: a cluster of its own, the same output, and
nothing left behind.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from traincrew.cli.errors import BadInput
from traincrew.local.background import BackgroundLoop

if TYPE_CHECKING:
    from traincrew.cli.display.metrics import Reading
    from traincrew.cli.manifest.documents import Document
    from traincrew.cli.terminal.records import JobRecord, PodRecord
    from traincrew.cli.terminal.view import TerminalView
    from traincrew.engine.client import Client

__all__ = ["JobOutcome", "Outcome", "PodOutcome", "run"]

MOST_LINES = 100_000
"""Log lines that are kept of one container, the last ones."""


class PodOutcome(Struct, frozen=True):
    """A pod of a run.

    Attributes:
        name: Its name.
        node: Its node; empty if it never had one.
        exit_code: That of its last failure; 0 if it succeeded; None if it was stopped with its job.
        restarts: Restarts of its containers.
        logs: What each container wrote, as lines.
    """

    name: str
    node: str
    exit_code: int | None
    restarts: int
    logs: dict[str, list[str]]


class JobOutcome(Struct, frozen=True):
    """A job of a run.

    Attributes:
        kind: Its kind.
        namespace: Its namespace.
        name: Its name.
        succeeded: Whether it succeeded.
        phase: Its last phase.
        reason: Why it failed, in words; empty if it did not.
        status: The status as stored; empty if the run ended before the job.
    """

    kind: str
    namespace: str
    name: str
    succeeded: bool
    phase: str
    reason: str
    status: dict[str, Any]


class Outcome(Struct, frozen=True):
    """How a run ended.

    Attributes:
        exit_code: 0, that of the program that failed, or 124 for a timeout, as of `traincrew run`.
        jobs: Its jobs.
        pods: Their pods, in the order in which they appeared, those that are gone included.
        metrics: Values that programs printed, by name: seconds since the start, and the value.
        warnings: Warning events, each once.
    """

    exit_code: int
    jobs: list[JobOutcome]
    pods: list[PodOutcome]
    metrics: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        """Whether every job succeeded."""
        return self.exit_code == 0

    @property
    def logs(self) -> str:
        """The lines of all pods, one pod after the other, each line with its pod."""
        return "".join(
            f"{pod.name} | {line}\n"
            for pod in self.pods
            for lines in pod.logs.values()
            for line in lines
        )


def run(
    manifest: str | os.PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    timeout: float | None = None,
    namespace: str | None = None,
    nodes: int = 1,
    gpus: int | None = None,
    images: Iterable[str | os.PathLike[str]] = (),
    image_source: Literal["auto", "environment", "image"] = "auto",
    env: Mapping[str, str] | None = None,
    sandbox: Literal["auto", "namespaces", "bare"] = "auto",
    show: bool = True,
) -> Outcome:
    """Run the jobs of a manifest on a cluster of their own, to their end.

    Args:
        manifest: A file or directory; or its text, which has several lines; or objects.
        timeout: Seconds after which the run is ended.
        namespace: Namespace of objects that name none.
        nodes: Number of virtual nodes.
        gpus: GPUs of the nodes together, pretended if the machine has fewer; None means those of
            this machine.
        images: Files that say what image names stand for (docs/guides/environments.md).
        image_source: What image names may stand for: environments, container images, or whichever
            there is (docs/guides/images.md).
        env: Variables of every container, over the manifest's.
        sandbox: How pods are isolated.
        show: Write what `traincrew run` writes to standard output.

    Raises:
        BadInput: The manifest or an argument cannot be used, or an object is refused.
        CommandFailed: The cluster does not start.
    """
    from traincrew.cli.cluster.options import Options
    from traincrew.cli.manifest.served import require_served
    from traincrew.cli.run.session import Session
    from traincrew.local.node import PodOptions

    documents = _documents(manifest)
    require_served(documents)
    paths = tuple(str(Path(path).absolute()) for path in images)
    for path in paths:
        if not Path(path).is_file():
            raise BadInput(f"images: {path} is no file")
    recorder = _Recorder()
    with Path(os.devnull).open("w") as muted:
        session = Session(
            documents,
            Options(
                nodes=nodes,
                gpus=gpus,
                images=paths,
                image_source=image_source,
                sandbox=sandbox,
                directory=str(Path.cwd()),
            ),
            namespace=namespace,
            timeout=timeout,
            pods=PodOptions(variables=dict(env or {}), host_directory=Path.cwd()),
            library=True,
            stream=None if show else muted,
            at_end=recorder.read_statuses,
        )
        recorder.attach(session.view)
        loop = BackgroundLoop("traincrew-run")
        try:
            code = loop.call(session.run())
        finally:
            loop.close()
    return recorder.outcome(code)


def _documents(manifest: Any) -> list[Document]:
    from traincrew.cli.manifest.documents import load, load_text

    if isinstance(manifest, str) and "\n" in manifest:
        return load_text("manifest", manifest)
    if isinstance(manifest, str | os.PathLike):
        return load([os.fspath(manifest)])
    import yaml

    objects = [manifest] if isinstance(manifest, Mapping) else manifest
    if not isinstance(objects, Iterable) or isinstance(objects, bytes):
        given = type(manifest).__name__
        raise BadInput(f"a manifest is a path, a text, or a dict or several of them, not {given}")
    plain = [dict(each) if isinstance(each, Mapping) else each for each in objects]
    return load_text("manifest", yaml.safe_dump_all(plain, sort_keys=False))


class _Recorder:
    """Keeps what a run shows, as data."""

    def __init__(self) -> None:
        self._view: TerminalView
        self._started = time.monotonic()
        self._lines: dict[str, dict[str, list[str]]] = defaultdict(dict)
        self._metrics: dict[str, list[tuple[float, float]]] = {}
        self._statuses: dict[tuple[str, str, str], dict[str, Any]] = {}

    def attach(self, view: TerminalView) -> None:
        """Record the lines of a view from now on."""
        self._view = view
        view.on_line = self._take

    def _take(self, pod: str, container: str, text: str, reading: Reading | None) -> None:
        lines = self._lines[pod].setdefault(container, [])
        lines.append(text)
        if len(lines) > MOST_LINES:
            del lines[: MOST_LINES // 10]
        if reading is not None:
            at = time.monotonic() - self._started
            for name, value in reading.metrics.items():
                self._metrics.setdefault(name, []).append((at, value))

    async def read_statuses(self, client: Client) -> None:
        """Read the jobs once more, before the cluster ends."""
        from traincrew.cli.manifest.documents import training_resources
        from traincrew.engine.errors import ApiError
        from traincrew.engine.resources import JOBS, PODS

        for record in self._view.jobs:
            for resource in (*training_resources(), JOBS, PODS):
                if resource.kind != record.kind:
                    continue
                try:
                    found = await client.get(resource, record.name, record.namespace)
                except ApiError:
                    continue  # two groups have the kind, or the job is gone
                key = (record.kind, record.namespace, record.name)
                self._statuses[key] = found.get("status", {})

    def outcome(self, code: int) -> Outcome:
        """Return everything."""
        view = self._view
        return Outcome(
            exit_code=code,
            jobs=[self._job(record) for record in view.jobs],
            pods=[self._pod(record) for record in view.pods.values()],
            metrics=self._metrics,
            warnings=[f"{each.about}: {each.message}" for each in view.warnings.values()],
        )

    def _job(self, record: JobRecord) -> JobOutcome:
        outcome = record.outcome
        return JobOutcome(
            kind=record.kind,
            namespace=record.namespace,
            name=record.name,
            succeeded=outcome is not None and outcome.succeeded,
            phase=record.phase,
            reason=outcome.reason if outcome is not None else record.state.message,
            status=self._statuses.get((record.kind, record.namespace, record.name), {}),
        )

    def _pod(self, record: PodRecord) -> PodOutcome:
        code = record.failure.exit_code if record.failure is not None else None
        if code is None and record.pod.status.phase == "Succeeded":
            code = 0
        return PodOutcome(
            name=record.name,
            node=record.pod.spec.node_name,
            exit_code=code,
            restarts=record.pod.status.restarts,
            logs=dict(self._lines.get(record.name, {})),
        )
