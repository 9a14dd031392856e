"""Test cases: a job, what its user does with it, and how it must end whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .jobs import GONE, UNTIL_TOLD, chainer_job, work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .namespace import FaultNamespace


@dataclass
class Case:
    """A job, what its user does, and how it ends.

    Attributes:
        manifest: The job.
        act: What the user does after creating it.
        end: Its final phase, or `GONE`.
        reason: The reason of that phase.
        children: The objects that the operator creates for it, as ``kind name``.
    """

    manifest: dict[str, Any]
    end: str
    reason: str = ""
    act: Callable[[FaultNamespace, str], Awaitable[None]] | None = None
    children: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        name, sets = self.name, self.manifest["spec"].get("workerSets", {})
        self.children = {
            f"serviceaccounts {name}-launcher",
            f"roles {name}-launcher-role",
            f"rolebindings {name}-launcher-rolebinding",
            f"jobs {name}-master",
            *(f"statefulsets {name}-workerset-{worker_set}" for worker_set in sets),
        }
        if sets:
            self.children.add(f"configmaps {name}-assets")

    @property
    def name(self) -> str:
        """Of the job."""
        name: str = self.manifest["metadata"]["name"]
        return name


def succeeds(name: str, seconds: float) -> Case:
    """Runs for a while and succeeds."""
    return Case(chainer_job(name, work(seconds)), "Succeeded")


def fails(name: str, retries: int) -> Case:
    """Fails, is retried, and fails for good."""
    manifest = chainer_job(name, work(0.5, 3), retries=retries)
    return Case(manifest, "Failed", "BackoffLimitExceeded")


def is_suspended(name: str) -> Case:
    """Is suspended while it runs, resumed when nothing changes any more, and then ended."""

    async def act(namespace: FaultNamespace, name: str) -> None:
        await namespace.until_phase(name, "Running")
        await namespace.edit(name, {"runPolicy": {"suspend": True}})
        await namespace.until_phase(name, "Suspended", "ChainerJobSuspended")
        assert (left := await namespace.active_pods(name)) == [], left
        await namespace.edit(name, {"runPolicy": {"suspend": False}})
        await namespace.let_master_end(name)

    return Case(chainer_job(name, UNTIL_TOLD), "Succeeded", act=act)


def is_deleted(name: str, workers: int | None) -> Case:
    """Is deleted while it runs."""

    async def act(namespace: FaultNamespace, name: str) -> None:
        await namespace.until_phase(name, "Running")
        await namespace.delete(name)

    return Case(chainer_job(name, work(600), workers=workers), GONE, act=act)


def is_scaled(name: str, sizes: list[int]) -> Case:
    """Its workers are scaled up and down while it runs; then the master is ended."""

    async def act(namespace: FaultNamespace, name: str) -> None:
        for size in sizes[1:]:
            await namespace.until_phase(name, "Running")
            await namespace.edit(name, {"workerSets": {"ws0": {"replicas": size}}})
            await namespace.until_workers(name, size)
        await namespace.let_master_end(name)

    return Case(chainer_job(name, UNTIL_TOLD, workers=sizes[0]), "Succeeded", act=act)


def prefer(case: Case, node: str) -> None:
    """Make the master prefer this node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    case.manifest["spec"]["master"]["template"]["spec"]["affinity"] = affinity


async def run_case(namespace: FaultNamespace, case: Case, after: float = 0.0) -> None:
    """Create the job of a case, do what its user does, and wait for its end.

    Args:
        namespace: Where the job runs.
        case: The case.
        after: Seconds to wait before the job is created.
    """
    await asyncio.sleep(after)
    await namespace.create(case.manifest)
    if case.act is not None:
        await namespace.until(case.name, lambda _status: True, "job")
        await case.act(namespace, case.name)
    if case.end == GONE:
        await namespace.until_gone(case.name)
    else:
        await namespace.until_phase(case.name, case.end, case.reason)


async def check_case(namespace: FaultNamespace, case: Case) -> list[str]:
    """Return what is wrong after the end of a case; empty if nothing is."""
    name = case.name
    wrong = namespace.created_twice(case.children)
    if case.end == GONE:
        return wrong + [f"{name}: left behind: {what}" for what in await namespace.made_for(name)]
    await namespace.at_rest(name)
    phase = namespace.phase(name)
    if phase != case.end:
        wrong.append(f"{name}: {phase} instead of {case.end}")
    children = {what for what in await namespace.made_for(name) if not what.startswith("pods ")}
    if children != case.children:
        wrong.append(f"{name}: children {children ^ case.children}")
    events = await namespace.events_of(name)
    if events["Failed"] > (case.end == "Failed"):
        wrong.append(f"{name}: event Failed {events['Failed']} times")
    return wrong + namespace.reverted(name)
