"""Gangs: KAI Scheduler."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hack.cluster import binaries
from hack.cluster.network import inside

from .gang_cases import GangCases, clean
from .gang_support import KAI, PLURALS, SIZE, UNTIL_TOLD, GangUser, cluster
from .install_support import namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["clean"]
pytestmark = pytest.mark.timeout(600)

PODGROUPER = "kai-podgrouper"
"""Its program, its role in KAI's chart, and the user of that role."""


@pytest.fixture(scope="module")
def user() -> Iterator[GangUser]:
    """A user of a cluster with this scheduler."""
    with cluster(KAI) as found:
        yield found


class TestGangs(GangCases):
    """All cases."""


def test_a_queue_that_does_not_exist_is_reported_and_may_come_later(user: GangUser) -> None:
    """KAI itself says nothing of a group whose queue it does not know."""
    user.create(queued(user, "early", "comes-later"))
    until_reported(user, "early", "kubectl get queues.scheduling.run.ai comes-later")
    assert "comes-later" in user.why("early")
    create_queue(user, "comes-later")
    user.until_running("early", SIZE)


def test_a_limit_of_the_queue_is_reported_and_another_queue_may_be_named(user: GangUser) -> None:
    create_queue(user, "narrow", limit=1)
    user.create(queued(user, "wide", "narrow"))
    limit = "narrow quota has reached the allowable limit of CPU cores"
    until_reported(user, "wide", limit)
    assert limit in user.why("wide")
    patch = json.dumps({"spec": {"schedulingPolicy": {"queue": None}}})
    user.kubectl("patch", "elasticjob", "wide", "--type=merge", "-p", patch)
    user.until_running("wide", SIZE)


def test_jobs_of_the_same_name_in_two_namespaces_are_two_gangs(user: GangUser) -> None:
    """Its scheduler finds the pods of a group by the name of the group alone."""
    with namespace(user.cluster, "twins"):
        other = GangUser(user.cluster, KAI)
        other.namespace = "twins"
        for each in (user, other):
            each.create(each.elastic("twin", UNTIL_TOLD, 2))
        for each in (user, other):
            each.until_running("twin", 2)
        other.delete_all()


def test_a_gang_of_higher_priority_takes_the_room_and_gives_it_back(user: GangUser) -> None:
    """Groups below a priority of 100 may be preempted."""
    user.create(user.elastic("first", UNTIL_TOLD))
    user.until_running("first", SIZE)
    user.cluster.kubectl("create", "priorityclass", "urgent", "--value=90")
    urgent = user.elastic("urgent", UNTIL_TOLD)
    urgent["spec"]["schedulingPolicy"]["priorityClass"] = "urgent"
    user.create(urgent)
    user.until_running("urgent", SIZE)
    user.until("no pod of the first has room", lambda: not any(map(_node, user.pods_of("first"))))
    user.kubectl("delete", "elasticjob", "urgent")
    user.cluster.kubectl("delete", "priorityclass", "urgent")
    user.until_running("first", SIZE)


def _node(pod: dict[str, Any]) -> str:
    return str(pod["spec"].get("nodeName") or "")


def test_a_podgrouper_that_takes_the_pods_is_reported(user: GangUser) -> None:
    """As up to release 0.14, with the rights of its chart. Pods that keep room are released."""
    user.create(user.elastic("first", UNTIL_TOLD, 2))
    user.until_running("first", 2)
    job = user.mxnet("second", UNTIL_TOLD)
    plural = PLURALS[job["kind"]]

    def reported(text: str) -> bool:
        conditions = user.get(plural, "second").get("status", {}).get("conditions", ())
        return any(text in each["message"] for each in conditions)

    with podgrouper(user):
        user.create(job)
        user.until("it is reported", lambda: reported("update KAI to 0.15"), 60)
        released = "Only 2 of 3 pods found room within 60 s"
        user.until("its pods are released", lambda: reported(released), 120)
        assert reported("before release 0.15")
        user.until("its pods are gone", lambda: len(user.items("pods")) == 2, 60)


def queued(user: GangUser, name: str, queue: str) -> dict[str, Any]:
    """An ElasticJob whose workers are a gang in a queue."""
    job = user.elastic(name, UNTIL_TOLD)
    job["spec"]["schedulingPolicy"]["queue"] = queue
    return job


def until_reported(user: GangUser, job: str, text: str) -> None:
    """Wait until an ElasticJob waits for its gang for this reason."""

    def reported() -> bool:
        status = user.status(job)
        return status.get("reason") == "WaitingForGang" and text in status["message"]

    user.until(f"{job} says {text!r}", reported, 60)


def create_queue(user: GangUser, name: str, limit: int = -1) -> None:
    """Create a queue with a limit of thousandths of a CPU; -1 for none."""
    unlimited = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    resources = {"cpu": {**unlimited, "limit": limit}, "gpu": unlimited, "memory": unlimited}
    user.create({
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"parentQueue": "default-parent-queue", "resources": resources},
    })  # fmt: skip


@contextmanager
def podgrouper(user: GangUser) -> Iterator[None]:
    """Run KAI's podgrouper as a user with the role of its chart."""
    real = user.cluster
    chart = binaries.module_directory(PODGROUPER) / "deployments" / "kai-scheduler"
    role = str(chart / "templates" / "rbac" / "podgrouper.yaml")
    real.kubectl("create", "-f", role)
    words = ("create", "clusterrolebinding", PODGROUPER)
    real.kubectl(*words, f"--clusterrole={PODGROUPER}", f"--user={PODGROUPER}")
    config = yaml.safe_load(real.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = PODGROUPER
    file = real.directory / f"{PODGROUPER}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    listens = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
    command = ["env", f"KUBECONFIG={file}", str(real.binary(PODGROUPER)), *listens]
    process = real.component(PODGROUPER)
    process.start(inside(real.network.control_plane, command))
    try:
        yield
    finally:
        process.kill()
        real.kubectl("delete", f"clusterrole/{PODGROUPER}", f"clusterrolebinding/{PODGROUPER}")
