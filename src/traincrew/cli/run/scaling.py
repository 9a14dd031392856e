"""``traincrew run --scale``: changes the number of workers while a job trains."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from traincrew.cli.display.lines import Line
from traincrew.cli.display.text import parse_duration
from traincrew.cli.errors import BadInput
from traincrew.engine.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.cli.manifest.documents import Document
    from traincrew.cli.watching.live import Live
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

_SCALING = re.compile(r"(\d+)@(.+)")


class Scaling(NamedTuple):
    """One change of the number of workers.

    Attributes:
        replicas: The new number of workers.
        after: Seconds since the job first ran.
    """

    replicas: int
    after: float


class ScalingOption(click.ParamType[Scaling]):
    """A number of workers and a time, written ``3@20s``."""

    name = "scaling"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Scaling:
        """Parse a scaling; click reports errors."""
        match = _SCALING.fullmatch(str(value).strip())
        if match is None:
            self.fail(
                f"{value!r} is not a number of workers and a time; write for example 3@20s",
                param,
                ctx,
            )
        try:
            return Scaling(int(match[1]), parse_duration(match[2]))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def require_scalable(jobs: Sequence[Document], scalings: Sequence[Scaling]) -> None:
    """Check that `scalings` apply to exactly one scalable job.

    Raises:
        BadInput: There are several jobs, or the job has no ``scale`` subresource.
    """
    if not scalings:
        return
    from traincrew.operator.kinds import SCALABLE

    *first, last = (resource.kind for resource in SCALABLE)
    kinds = f"{', '.join(first)} or {last}" if first else last
    if len(jobs) != 1:
        raise BadInput(f"--scale: there are {len(jobs)} jobs in the manifest; it takes one {kinds}")
    if (jobs[0].api_version, jobs[0].kind) not in {(r.api_version, r.kind) for r in SCALABLE}:
        raise BadInput(f"--scale: {jobs[0].kind} cannot be scaled while it runs, {kinds} can")


async def scale(
    client: Client, resource: Resource, namespace: str, name: str, replicas: int
) -> None:
    """Scale a job as ``kubectl scale`` does.

    Raises:
        ApiError: The request failed.
    """
    patch = {"spec": {"replicas": replicas}}
    await client.patch(resource, name, namespace, patch=patch, subresource="scale")


async def scale_while_running(
    client: Client, live: Live, resource: Resource, scalings: Sequence[Scaling]
) -> None:
    """Scale the only job that is shown, at the given times after it began to run."""
    if not scalings:
        return
    (job,) = live.view.jobs
    await live.running.wait()
    began = live.now()
    for replicas, after in sorted(scalings, key=lambda scaling: scaling.after):
        await asyncio.sleep(began + after - live.now())
        try:
            await scale(client, resource, job.namespace, job.name, replicas)
        except ApiError as error:
            text = f"{job.name}: not scaled to {replicas}: {error.message}"
            live.show([Line(text, "bad", at=live.now())])
        else:
            live.say(f"{job.name} scaled to {replicas}")
