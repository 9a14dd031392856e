"""The course of the jobs of a run on any cluster: create, follow, scale, explain, until they end.

Called by `session` with a cluster of the run's own, and by `elsewhere` with another one. Documents
pass through, then the objects that were created. It must never know how a cluster is started, or
what happens when a run ends early.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.run.readiness import until_ready
from traincrew.cli.run.scaling import scale_while_running
from traincrew.cli.watching.jobwatch import EVERYTHING
from traincrew.cli.watching.kinds import ALL
from traincrew.cli.watching.waiting import explain_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.cli.manifest.documents import Document
    from traincrew.cli.run.scaling import Scaling
    from traincrew.cli.run.submit import Submitter
    from traincrew.cli.terminal.records import JobRecord
    from traincrew.cli.watching.kinds import Served
    from traincrew.cli.watching.live import Live
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

__all__ = ["Created", "Lifecycle", "served"]


class Created(NamedTuple):
    """An object that the run has created, or whose fields it has set."""

    resource: Resource
    namespace: str | None
    name: str
    is_new: bool

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.resource.kind} {self.name}"


class Lifecycle:
    """The jobs of a run.

    Args:
        client: The API server.
        live: Where they are shown.
        submitter: Creates objects.

    Attributes:
        created: All objects, in the order in which they were created.
        jobs: The jobs among them, which are followed.
    """

    def __init__(self, client: Client, live: Live, submitter: Submitter) -> None:
        self._client = client
        self._live = live
        self._submitter = submitter
        self.created: list[Created] = []
        self.jobs: list[Created] = []

    async def create(
        self, documents: Sequence[Document], jobs: Sequence[Document], *, watch: bool = False
    ) -> None:
        """Create all objects, jobs last, once the pods beside them are ready.

        Args:
            documents: The objects.
            jobs: The jobs among them.
            watch: Watch everything on the cluster before the first job is there.

        Raises:
            BadInput: An object is refused.
            CommandFailed: A right is missing, or the cluster does not answer.
        """
        pods = []
        for document in documents:
            if not any(document is job for job in jobs):
                made = await self.submit(document, again=True)
                if (document.api_version, document.kind) == ("v1", "Pod"):
                    pods.append((made.namespace or "", made.name))
        await until_ready(self._client, pods, self._live.say)
        if watch:
            resources = [await self._submitter.resource(job) for job in jobs]
            await self._live.watch(self._client, [(each, EVERYTHING) for each in resources])
        for job in jobs:
            made = await self.submit(job)
            self.jobs.append(made)
            self._live.follow(made.resource.kind, made.namespace or "", made.name)

    async def submit(
        self, document: Document, *, again: bool = False, dry_run: bool = False
    ) -> Created:
        """Create one object; see `Submitter.submit`."""
        made = await self._submitter.submit(document, again=again, dry_run=dry_run)
        created = Created(
            await self._submitter.resource(document),
            made["metadata"].get("namespace"),
            made["metadata"]["name"],
            self._submitter.made_new,
        )
        if not dry_run:
            self.created.append(created)
        return created

    async def until_shown(
        self, scalings: Sequence[Scaling], fixes: Mapping[str, str] | None = None
    ) -> int:
        """Show the jobs until they end, scale and explain them; return the exit code.

        Args:
            scalings: Worker counts to scale the only job to, and when.
            fixes: What to do on this cluster, by cause; others are those of `traincrew why`.

        Raises:
            CommandFailed: A watch is refused for good.
        """
        scaling = scale_while_running(self._client, self._live, self.jobs[0].resource, scalings)
        explaining = explain_waiting(self._client, self._live, self._explainable(), fixes)
        tasks = [
            asyncio.create_task(scaling, name="scale"),
            asyncio.create_task(explaining, name="explain"),
        ]
        try:
            return await self._live.until_shown(self._client)
        finally:
            for task in tasks:
                task.cancel()

    def _explainable(self) -> list[tuple[str, JobRecord]]:
        """Return ``KIND/NAME`` and record of each job of a kind that `why` knows."""
        return [
            (f"{job.resource.plural}.{job.resource.group}/{job.name}", record)
            for job, record in zip(self.jobs, self._live.view.jobs, strict=True)
            if served(job) is not None
        ]


def served(job: Created) -> Served | None:
    """Return the kind of a job; None for a plain Job or a Pod."""
    return next((each for each in ALL if each.resource == job.resource), None)
