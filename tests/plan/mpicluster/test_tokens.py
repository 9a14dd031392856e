"""Tokens of the Kubernetes API: only the master of ``transport: exec`` needs one."""

from __future__ import annotations

from typing import Any

import pytest

from plan.mpicluster.manifests import everything, interactive, one_shot, without_ssh
from plan.mpicluster.test_children import child
from plan.mpicluster.world import MPIWorld
from traincrew.plan.shared.model import ChildKey

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
FIELD = "automountServiceAccountToken"
FETCHED = {"name": "code", "repository": "https://git.example.com/code", "mountPath": "/code"}


def pods(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the specs of the pods of a cluster, by role."""
    name = job["metadata"]["name"]
    workers = child(job, "StatefulSet", f"{name}-worker")["spec"]["template"]["spec"]
    return {"master": child(job, "Pod", f"{name}-master")["spec"], "workers": workers}


@pytest.mark.parametrize("job", [interactive(), one_shot(), everything()])
def test_with_ssh_no_pod_has_a_token(job: dict[str, Any]) -> None:
    assert [pod[FIELD] for pod in pods(job).values()] == [False, False]


def test_with_exec_the_master_alone_has_one() -> None:
    found = pods(without_ssh())
    assert FIELD not in found["master"]
    assert found["workers"][FIELD] is False


@pytest.mark.parametrize(
    "fields", [{"serviceAccountName": "cloud"}, {"serviceAccount": "cloud"}, {FIELD: True}]
)
@pytest.mark.parametrize("role", ["master", "workers"])
def test_a_template_that_asks_for_one_has_it(role: str, fields: dict[str, Any]) -> None:
    job = interactive()
    job["spec"][role]["template"]["spec"] |= fields
    assert pods(job)[role].get(FIELD) == fields.get(FIELD)


def test_fields_without_a_value_ask_for_nothing() -> None:
    job = interactive()
    job["spec"]["master"]["template"]["spec"] |= {FIELD: None, "serviceAccountName": ""}
    assert pods(job)["master"][FIELD] is False


def mounting(pod: dict[str, Any]) -> dict[str, str]:
    """Return the volumes that containers have in place of a token, by container."""
    return {
        each["name"]: mount["name"]
        for each in (*pod.get("initContainers", ()), *pod["containers"])
        for mount in each.get("volumeMounts", ())
        if mount["mountPath"] == TOKEN
    }


def test_containers_with_git_do_not_see_the_token_of_the_master() -> None:
    job = without_ssh(codeSync=[FETCHED, {**FETCHED, "name": "fresh", "updateSeconds": 60}])
    found = pods(job)
    names = ["code-fetch", "fresh-fetch", "fresh-update"]
    volume = "kube-openmpi-no-token"
    assert mounting(found["master"]) == dict.fromkeys(names, volume)
    assert {"name": volume, "emptyDir": {}} in found["master"]["volumes"]
    assert not mounting(found["workers"]), "they have no token at all"
    assert volume not in {each["name"] for each in found["workers"]["volumes"]}


def test_nothing_is_hidden_where_there_is_no_token() -> None:
    job = one_shot(codeSync=[FETCHED])
    assert [mounting(pod) for pod in pods(job).values()] == [{}, {}]


@pytest.mark.parametrize("job", [interactive(), without_ssh()])
def test_workers_of_an_older_operator_are_not_replaced(job: dict[str, Any]) -> None:
    world = MPIWorld(job)
    world.start()
    template = world.children[ChildKey("StatefulSet", "hello-worker")]["spec"]["template"]
    del template["spec"][FIELD]
    world.settle()  # its controller replaces the pods, as after that operator
    world.start()
    before = world.writes, uids(world)
    world.start()
    assert (world.writes, uids(world)) == before
    found = world.children[ChildKey("StatefulSet", "hello-worker")]["spec"]["template"]["spec"]
    assert FIELD not in found


def uids(world: MPIWorld) -> dict[str, str]:
    """Return the UIDs of the pods that there are, by name."""
    return {name: pod["metadata"]["uid"] for name, pod in world.pods.items()}
