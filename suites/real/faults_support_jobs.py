"""Jobs of all sorts, what is done to them, and how they have to end whatever happens meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .faults_support_desk import Desk

IMAGE = "docker.io/traincrew/busybox:0.1.0"
HELPER_IMAGE = "docker.io/traincrew/helper:0.1.0"
GONE = "gone"
END_FILE = "/tmp/end"
UNTIL_TOLD = f"until [ -e {END_FILE} ]; do sleep 0.2 & wait $!; done; exit 0"
"""A script that ends when somebody makes the file, however long everything else takes."""


def template(script: str) -> dict[str, Any]:
    """A pod that runs a shell script and ends at once when it is told to."""
    container = {
        "name": "chainer",
        "image": IMAGE,
        "command": ["sh", "-c", f"trap 'exit 143' TERM; {script}"],
        "resources": {"requests": {"cpu": "5m", "memory": "8Mi"}},
    }
    return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}


def work(seconds: float, code: int = 0) -> str:
    """A script that takes a while and exits."""
    return f"sleep {seconds} & wait $!; exit {code}"


def chainer_job(
    name: str, script: str, *, retries: int = 0, workers: int | None = None, **policy: Any
) -> dict[str, Any]:
    """A ChainerJob: a master that runs the script, and perhaps workers that wait."""
    spec: dict[str, Any] = {
        "master": {"backoffLimit": retries, "template": template(script)},
        "runPolicy": policy,
    }
    if workers is not None:
        spec["backend"] = "mpi"
        spec["workerSets"] = {"ws0": {"replicas": workers, "template": template(work(3600))}}
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {"name": name},
        "spec": spec,
    }


@dataclass
class Story:
    """A job, what its user does, and how it ends.

    Attributes:
        manifest: The job.
        act: What the user does after creating it.
        end: Its last phase, or `GONE`.
        reason: And the reason.
        children: Names of what the operator makes for it, as ``kind name``.
    """

    manifest: dict[str, Any]
    end: str
    reason: str = ""
    act: Callable[[Desk, str], Awaitable[None]] | None = None
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


def succeeds(name: str, seconds: float) -> Story:
    """Runs for a while and succeeds."""
    return Story(chainer_job(name, work(seconds)), "Succeeded")


def fails(name: str, retries: int) -> Story:
    """Fails, is tried again, and fails for good."""
    manifest = chainer_job(name, work(0.5, 3), retries=retries)
    return Story(manifest, "Failed", "BackoffLimitExceeded")


def is_suspended(name: str) -> Story:
    """Is suspended while it runs, resumed when all is quiet, and told to end."""

    async def act(desk: Desk, name: str) -> None:
        await desk.until_phase(name, "Running")
        await desk.edit(name, {"runPolicy": {"suspend": True}})
        await desk.until_phase(name, "Suspended", "ChainerJobSuspended")
        assert (left := await desk.active_pods(name)) == [], left
        await desk.edit(name, {"runPolicy": {"suspend": False}})
        await desk.let_master_end(name)

    return Story(chainer_job(name, UNTIL_TOLD), "Succeeded", act=act)


def is_deleted(name: str, workers: int | None) -> Story:
    """Is deleted while it runs."""

    async def act(desk: Desk, name: str) -> None:
        await desk.until_phase(name, "Running")
        await desk.delete(name)

    return Story(chainer_job(name, work(600), workers=workers), GONE, act=act)


def is_scaled(name: str, sizes: list[int]) -> Story:
    """Its workers become more and fewer while it runs; then the master is told to end."""

    async def act(desk: Desk, name: str) -> None:
        for size in sizes[1:]:
            await desk.until_phase(name, "Running")
            await desk.edit(name, {"workerSets": {"ws0": {"replicas": size}}})
            await desk.until_workers(name, size)
        await desk.let_master_end(name)

    return Story(chainer_job(name, UNTIL_TOLD, workers=sizes[0]), "Succeeded", act=act)


def prefer(story: Story, node: str) -> None:
    """Let the master run on this node as long as that is possible."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    preferred = [{"weight": 100, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    story.manifest["spec"]["master"]["template"]["spec"]["affinity"] = affinity
