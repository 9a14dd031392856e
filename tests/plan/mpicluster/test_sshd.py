"""A pod whose sshd does not answer is in the status, and so is what to do when ssh fails."""

from __future__ import annotations

from typing import Any

import pytest

from plan.mpicluster.manifests import interactive, one_shot, without_ssh
from plan.mpicluster.world import MPIWorld
from traincrew.plan.mpicluster import sshd


def running_but_not_ready(world: MPIWorld, *names: str) -> None:
    """Containers run, and the kubelet's probe of sshd fails."""
    world.run(*names)
    for name in names:
        status = world.pods[name]["status"]
        status["conditions"] = [{"type": "Ready", "status": "False"}]
        for container in status["containerStatuses"]:
            container["state"] = {"running": {"startedAt": world.stamp()}}
            container["ready"] = False
            container["name"] = "mpi-master" if name.endswith("-master") else "mpi-worker"


def waiting(manifest: dict[str, Any]) -> MPIWorld:
    """Return a cluster whose first worker has no sshd."""
    world = MPIWorld(manifest)
    world.settle()
    running_but_not_ready(world, "hello-worker-0")
    world.settle()
    return world


def silent(pod: str) -> str:
    """What is said of a pod."""
    return (
        f"sshd does not answer on port 2022: the image's command has to be /init.sh;"
        f" kubectl exec {pod} -- cat /tmp/sshd.log"
    )


@pytest.mark.parametrize("kind", [interactive, one_shot])
def test_a_worker_without_sshd_is_named_after_30_s(kind: Any) -> None:
    world = waiting(kind(workers=2))
    assert world.status["message"] == "0/2 workers ready"
    assert world.requeue_after == 30
    world.pass_time(29)
    world.settle()
    assert world.status["message"] == "0/2 workers ready"
    assert world.requeue_after == 1
    world.pass_time(1)
    world.settle()
    said = silent("hello-worker-0")
    assert world.status["message"] == f"0/2 workers ready; hello-worker-0: {said}"
    assert world.status["reason"] == "WaitingForWorkers"
    assert (world.requeue_after or 60) > 30

    world.run("hello-worker-0")
    world.settle()
    assert "sshd" not in world.status["message"]


def test_an_interactive_master_without_sshd_is_named() -> None:
    world = MPIWorld(interactive(workers=1))
    world.settle()
    world.run("hello-worker-0")
    world.settle()
    running_but_not_ready(world, "hello-master")
    world.settle()
    assert world.requeue_after == 30
    world.pass_time(30)
    world.settle()
    assert world.status["message"] == f"The master is not running: {silent('hello-master')}"


def test_a_command_runs_whether_its_master_has_sshd_or_not() -> None:
    world = MPIWorld(one_shot(workers=0))
    world.settle()
    running_but_not_ready(world, "hello-master")
    world.settle()
    assert world.requeue_after is None
    world.pass_time(60)
    world.settle()
    assert world.status["message"] == "The command is running on the master."


def test_a_probe_of_the_user_is_not_about_sshd() -> None:
    manifest = interactive(workers=1)
    container = manifest["spec"]["workers"]["template"]["spec"]["containers"][0]
    container["readinessProbe"] = {"exec": {"command": ["true"]}}
    world = waiting(manifest)
    world.pass_time(60)
    world.settle()
    assert world.status["message"] == "0/1 workers ready"


def test_without_ssh_there_is_no_sshd() -> None:
    world = waiting(without_ssh(workers=1))
    world.pass_time(60)
    world.settle()
    assert world.status["message"] == "0/1 workers ready"


@pytest.mark.parametrize("change", ["deleted", "container ready", "restarting"])
def test_other_reasons_are_not_taken_for_a_missing_sshd(change: str) -> None:
    world = waiting(interactive(workers=1))
    world.pass_time(60)
    pod = world.pods["hello-worker-0"]
    (container,) = pod["status"]["containerStatuses"]
    if change == "deleted":
        pod["metadata"]["deletionTimestamp"] = world.stamp()
        world.step()
    elif change == "container ready":  # its node is lost
        container["ready"] = True
        world.settle()
    else:
        container["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
        world.settle()
    assert "sshd does not answer" not in world.status["message"]


MESSAGES = [
    ("root@a-worker-0.a: Permission denied (publickey).", "the pods have different keys or users"),
    (
        "a@b: Permission denied (publickey,password,keyboard-interactive).",
        "the pods have different keys or users",
    ),
    ("ssh: connect to host a-worker-0.a port 2022: Connection refused", "sshd of that pod does"),
    ("ssh: connect to host 10.0.0.1 port 2022: Connection timed out", "see NetworkPolicies"),
    ("ssh: connect to host 10.0.0.1 port 2022: Operation timed out", "see NetworkPolicies"),
    (
        "ssh: Could not resolve hostname a-worker-7.a: Name or service not known",
        "compare the hostfile with kubectl get pods",
    ),
    (
        'exec: "/init.sh": stat /init.sh: no such file or directory: unknown',
        "the image has no sshd",
    ),
    ("sh: /init.sh: not found", "the image has no sshd"),
    ("ConnectionRefusedError: [Errno 111] Connection refused", ""),
    ("curl: (28) Connection timed out", ""),
    ("open(): Permission denied", ""),
    ("No such file or directory: train.py", ""),
    ("", ""),
]


@pytest.mark.parametrize(("message", "wanted"), MESSAGES)
def test_advice(message: str, wanted: str) -> None:
    found = sshd.advice(f"first line\n{message}\nlast line")

    assert wanted in found if wanted else found == ""
    assert len(found) <= 80


def failed(manifest: dict[str, Any], message: str) -> str:
    """Return what the status says of a command that has failed once."""
    world = MPIWorld(manifest)
    world.start()
    world.fail_attempt(255)
    (container,) = world.master_pod["status"]["containerStatuses"]
    container["lastState"]["terminated"]["message"] = message
    world.settle()
    text: str = world.status["message"]
    return text


@pytest.mark.parametrize("limit", [0, 3])
def test_advice_follows_the_words_of_ssh(limit: int) -> None:
    said = "ssh: connect to host hello-worker-1.hello port 2022: Connection refused"
    text = failed(one_shot(runPolicy={"backoffLimit": limit}), f"{said}\n")

    advice = "sshd of that pod does not run: its image's command has to be /init.sh"
    assert text.endswith(f"exited with code 255: {said}; {advice}")


def test_without_ssh_there_is_no_advice_about_it() -> None:
    said = "ssh: connect to host hello-worker-1.hello port 2022: Connection refused"

    assert failed(without_ssh(), said).endswith(f"code 255: {said}")
