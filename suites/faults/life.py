"""The life cycle of a job, from its creation to its end, and when it leaves nothing behind."""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

import statusschemas
from harness import PODS, Cluster
from traincrew.engine.errors import NotFoundError
from traincrew.operator.kinds import OF_OTHERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from traincrew.engine.resources import Resource

Document = dict[str, Any]


class Life:
    """The life cycle of a job of one kind, from its creation to its end.

    Attributes:
        manifest: The job; fields that the plan computes are left out.
        label: Label of its children; the value is its name.
        children: Resources of its children.
        writes: The fewest and the most writes the operator needs for it.
        step: A process is killed only at every step-th write, since pauses take real time there.
        stride: An operator in this process is killed only at every stride-th write, other ones in
            each run of the suites, where a pause is part of the life.
        expires: Whether something is deleted when its time to live is over.
        resource: The kind of the job, if `declared` is there.
        declared: What the definition of its project declares of the status; ours stores all of it.
    """

    manifest: Document
    label: str
    children: tuple[Resource, ...]
    writes: tuple[int, int]
    step: int = 3
    stride: int = 1
    expires: bool = True
    resource: Resource | None = None
    declared: Document | None = None

    @contextlib.asynccontextmanager
    async def cluster(self) -> AsyncIterator[Cluster]:
        """A cluster with the definition of the kind."""
        async with Cluster(OF_OTHERS) as cluster:
            if self.resource is not None and self.declared is not None:
                await statusschemas.declare(cluster.client, self.resource, self.declared)
            yield cluster

    @property
    def name(self) -> str:
        """The job's."""
        name: str = self.manifest["metadata"]["name"]
        return name

    def owns(self, child: Document) -> bool:
        """Return whether an object belongs to the job, by its label."""
        return bool(child["metadata"].get("labels", {}).get(self.label) == self.name)

    async def live(self, cluster: Cluster) -> None:
        """Change the job, its pods and their status."""
        raise NotImplementedError

    async def end(self, cluster: Cluster) -> None:
        """Take the job from creation to its end, with nothing in between."""
        raise NotImplementedError

    def expiring(self) -> Document:
        """Return the job with a time to live of no second."""
        manifest = copy.deepcopy(self.manifest)
        manifest["spec"].setdefault("runPolicy", {})["ttlSecondsAfterFinished"] = 0
        return manifest

    async def has_expired(self, cluster: Cluster) -> bool:
        """Return whether the job is gone, and left nothing behind."""
        with contextlib.suppress(NotFoundError):
            await cluster.job(self.name)
            return False
        for resource in (*self.children, PODS):
            if any(self.owns(child) for child in await cluster.all(resource)):
                return False
        return True
