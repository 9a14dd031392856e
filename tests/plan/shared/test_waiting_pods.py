"""Pods that wait for something that does not come, and pods that are lost with their nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from plan.chainerjob.world import ChainerWorld, distributed
from plan.elasticjob.world import ElasticWorld, elastic
from plan.mpicluster.manifests import interactive, one_shot
from plan.mpicluster.world import MPIWorld
from plan.mxjob.manifests import distributed as mx_job
from plan.mxjob.world import MxWorld
from traincrew.plan.shared import pods
from traincrew.plan.shared.model import Refusal
from traincrew.plan.shared.views import ObservedPod

if TYPE_CHECKING:
    from collections.abc import Callable

    from plan.world import World

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
EARLY, LATE = timedelta(seconds=29), timedelta(seconds=30)
CREATED = "2026-01-01T12:00:00Z"
CREATING = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": CREATED}
READY_TO_START = {"type": "PodReadyToStartContainers", "status": "True"}
VOLUMES = [
    {"name": "keys", "secret": {"secretName": "my-keys"}},
    {"name": "settings", "configMap": {"name": "settings"}},
    {"name": "maybe", "secret": {"secretName": "extra", "optional": True}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "images"}},
    {"name": "more", "configMap": {"name": "more"}},
]


def view(**fields: Any) -> ObservedPod:
    """Return a pod that was just created."""
    metadata = {"name": "p", "creationTimestamp": CREATED}
    spec = {
        key: fields.pop(key) for key in ("nodeName", "schedulerName", "volumes") if key in fields
    }
    metadata |= fields.pop("metadata", {})
    status = {"phase": "Pending", **fields}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, ObservedPod)


def creating(**fields: Any) -> ObservedPod:
    """Return a pod whose node creates its containers."""
    return view(
        **{"nodeName": "n1", "conditions": [SCHEDULED], "containerStatuses": [CREATING], **fields}
    )


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (
            view(schedulerName="volcano"),
            "no scheduler has looked at it after 30 s: is there one with the name volcano?",
        ),
        (
            view(nodeName="n1", conditions=[SCHEDULED]),
            "its node n1 has not begun to start it after 30 s",
        ),
        (
            creating(volumes=VOLUMES),
            (
                "no container is created after 30 s (ContainerCreating); it mounts Secret my-keys,"
                " ConfigMap settings, PersistentVolumeClaim images and 1 more: do they exist?"
                " See the events of the pod"
            ),
        ),
        (
            creating(volumes=[VOLUMES[3]]),
            "no container is created after 30 s (ContainerCreating): see the events of the pod",
        ),
        (
            creating(
                containerStatuses=[],
                initContainerStatuses=[
                    {**CREATING, "state": {"waiting": {"reason": "PodInitializing"}}}
                ],
                volumes=VOLUMES[:1],
            ),
            (
                "no container is created after 30 s (ContainerCreating); it mounts Secret my-keys:"
                " does it exist? See the events of the pod"
            ),
        ),
    ],
    ids=["no scheduler", "no kubelet", "volumes", "network", "init container"],
)
def test_a_pod_that_waits_for_too_long_names_what_it_waits_for(pod: ObservedPod, text: str) -> None:
    assert pods.not_ready_reason(pod, NOW + EARLY) is None
    assert pods.seconds_until_late([pod], NOW + EARLY) == 1.0
    assert pods.not_ready_reason(pod, NOW + LATE) == text
    assert pods.seconds_until_late([pod], NOW + LATE) is None


@pytest.mark.parametrize(
    "pod",
    [
        creating(conditions=[SCHEDULED, READY_TO_START]),
        creating(initContainerStatuses=[{"name": "fetch", "state": {"running": {}}}]),
        creating(phase="Running"),
    ],
    ids=["image is pulled", "init container runs", "runs"],
)
def test_a_pod_that_makes_progress_is_merely_starting(pod: ObservedPod) -> None:
    later = NOW + timedelta(hours=1)
    assert pods.not_ready_reason(pod, later) is None
    assert pods.seconds_until_late([pod], NOW) is None


def running(ready: dict[str, Any], **fields: Any) -> ObservedPod:
    """Return a pod whose containers ran when they were last heard of."""
    container = {"name": "main", "ready": True, "state": {"running": {}}}
    return view(
        **{
            "nodeName": "gpu-3",
            "phase": "Running",
            "conditions": [{"type": "Ready", **ready}],
            "containerStatuses": [container],
            **fields,
        }
    )


LEAVING = {"deletionTimestamp": CREATED}
TAINTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "preempted by a pod on node gpu-3",
}


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (running({"status": "False"}), "its node gpu-3 does not answer"),
        (running({"status": "Unknown"}), "its node gpu-3 does not answer"),
        (running({"status": "True"}, reason="NodeLost"), "its node gpu-3 does not answer"),
        (
            running({"status": "False"}, metadata=LEAVING),
            "is being deleted (its node gpu-3 does not answer)",
        ),
        (
            running({"status": "True"}, metadata=LEAVING, conditions=[TAINTED]),
            "is being deleted (PreemptionByScheduler: preempted by a pod on node gpu-3)",
        ),
        (running({"status": "True"}, metadata=LEAVING), "is being deleted"),
        (running({"status": "False", "reason": "ContainersNotReady"}), None),
        (running({"status": "False", "reason": "ReadinessGatesNotReady"}), None),
    ],
)
def test_a_pod_that_is_lost_with_its_node_names_it(pod: ObservedPod, text: str | None) -> None:
    assert pods.not_ready_reason(pod, NOW) == text


def test_the_pod_of_somebody_else_is_named_with_its_controller() -> None:
    foreign = Refusal("exists", foreign=True, owner="ReplicaSet.apps web")
    assert (
        pods.rejection_text("p", foreign) == "another pod has this name and is not managed by this"
        " job; its controller is ReplicaSet.apps web"
    )


# -- every kind -----------------------------------------------------------------------------------


def lose(pod: dict[str, Any]) -> None:
    """The node of a pod stops to answer, which the controller of nodes notices."""
    pod["spec"]["nodeName"] = "gpu-3"
    pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    for container in pod["status"]["containerStatuses"]:
        container["ready"] = True


def started(world: World) -> World:
    world.settle()
    world.run()
    world.settle()
    world.run()
    world.settle()
    return world


MAKE: dict[str, Callable[[], World]] = {
    "ChainerJob": lambda: ChainerWorld(distributed()),
    "ElasticJob": lambda: ElasticWorld(elastic()),
    "MxJob": lambda: MxWorld(mx_job()),
    "interactive MPICluster": lambda: MPIWorld(interactive("hello", workers=2)),
    "one-shot MPICluster": lambda: MPIWorld(one_shot("hello", workers=2)),
}


@pytest.mark.parametrize(
    ("kind", "pod"),
    [
        ("ChainerJob", "-workerset-ws0-0"),
        ("ChainerJob", ""),
        ("interactive MPICluster", "-worker-1"),
        ("interactive MPICluster", "-master"),
        ("one-shot MPICluster", "-worker-1"),
        ("one-shot MPICluster", "-master"),
        ("ElasticJob", "-worker-0"),
        ("MxJob", ""),
    ],
)
def test_the_status_of_every_kind_names_a_node_that_is_lost(kind: str, pod: str) -> None:
    world = started(MAKE[kind]())
    name = [name for name in world.pods if name.endswith(pod)][-1]
    lose(world.pods[name])
    world.settle()
    assert "its node gpu-3 does not answer" in world.status["message"]


@pytest.mark.parametrize(
    ("kind", "late"),
    [
        ("ChainerJob", "-workerset-ws0-0"),
        ("interactive MPICluster", "-worker-1"),
        ("ElasticJob", "-worker-1"),
        ("MxJob", ""),
    ],
)
def test_the_status_of_every_kind_names_the_secret_that_a_pod_waits_for(
    kind: str, late: str
) -> None:
    world = MAKE[kind]()
    world.settle()
    for name, pod in world.pods.items():
        pod["spec"] |= {"nodeName": "n1", "volumes": VOLUMES[:1]}
        pod["status"] |= {"conditions": [], "containerStatuses": [{**CREATING, "name": name}]}
    if others := [name for name in world.pods if not name.endswith(late)]:
        world.run(*others)
    world.settle()
    assert "my-keys" not in world.status["message"]
    world.pass_time(30)
    world.settle()
    assert "it mounts Secret my-keys" in world.status["message"]


def test_the_master_of_a_cluster_without_workers_names_the_secret_that_it_waits_for() -> None:
    world = MPIWorld(one_shot("hello", workers=0))
    world.settle()
    pod = world.master_pod
    pod["spec"] |= {"nodeName": "n1", "volumes": VOLUMES[:1]}
    pod["status"] |= {"conditions": [], "containerStatuses": [CREATING]}
    world.pass_time(30)
    world.settle()
    assert world.status["message"].startswith("The master is not running: no container is created")
    assert "it mounts Secret my-keys" in world.status["message"]
