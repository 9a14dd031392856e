"""``transport: exec``: mpiexec starts processes by `kubectl exec`, and no pod needs ssh."""

from __future__ import annotations

import contextlib
import copy
import os
import shlex
import signal
import subprocess
import sys
from typing import Any

import pytest

from plan.mpicluster.manifests import interactive, without_ssh
from plan.mpicluster.test_children import child, container, documents
from plan.mpicluster.world import MPIWorld
from traincrew.api.kinds.mpicluster.transport import MOUNTS
from traincrew.plan.mpicluster import agent
from traincrew.plan.shared.model import ChildKey

ROLE, BINDING = ChildKey("Role", "hello-master"), ChildKey("RoleBinding", "hello-master")
ACCOUNT = ChildKey("ServiceAccount", "hello-master")
SET = ChildKey("StatefulSet", "hello-worker")


def master(job: dict[str, Any]) -> dict[str, Any]:
    pod = child(job, "Pod", "hello-master")["spec"]
    assert isinstance(pod, dict)
    return pod


def worker(job: dict[str, Any]) -> dict[str, Any]:
    template = child(job, "StatefulSet", "hello-worker")["spec"]["template"]["spec"]
    assert isinstance(template, dict)
    return template


# -- children -------------------------------------------------------------------------------------


def test_there_is_no_key_no_port_and_no_probe() -> None:
    job = without_ssh()
    kinds = [each["kind"] for each in documents(job)]
    assert "Secret" not in kinds
    for pod, name in ((master(job), "mpi-master"), (worker(job), "mpi-worker")):
        main = container({"spec": pod}, name)
        assert "readinessProbe" not in main
        assert "ports" not in main
        assert not [each for each in pod.get("volumes", []) if "secret" in each]


def test_only_the_master_may_start_processes_and_only_in_the_workers() -> None:
    job = without_ssh(workers=2)
    assert child(job, "Role", "hello-master")["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "resourceNames": ["hello-worker-0", "hello-worker-1"],
            "verbs": ["get"],
        },
        {
            "apiGroups": [""],
            "resources": ["pods/exec"],
            "resourceNames": ["hello-worker-0", "hello-worker-1"],
            "verbs": ["get", "create"],
        },
    ]
    (subject,) = child(job, "RoleBinding", "hello-master")["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", "hello-master")
    assert master(job)["serviceAccountName"] == "hello-master"
    assert "serviceAccountName" not in worker(job)
    assert "initContainers" not in worker(job), "no kubectl either"
    paths = [each["mountPath"] for each in worker(job)["containers"][0]["volumeMounts"]]
    assert paths == ["/kube-openmpi/assets"], "daemons of Open MPI look for the agent"


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_an_account_of_the_user_gets_the_permissions(field: str) -> None:
    job = without_ssh()
    job["spec"]["master"]["template"]["spec"][field] = "cloud"
    assert master(job)["serviceAccountName"] == "cloud"
    assert "serviceAccount" not in master(job)
    (subject,) = child(job, "RoleBinding", "hello-master")["subjects"]
    assert subject["name"] == "cloud"


def test_open_mpi_calls_the_agent_and_not_the_ssh_of_the_image() -> None:
    main = container({"spec": master(without_ssh())}, "mpi-master")
    variables = {each["name"]: each.get("value") for each in main["env"]}
    for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"):
        assert variables[name] == "/kube-openmpi/assets/kubexeb.sh"
    # Only the master may start anything.
    assert variables["OMPI_MCA_plm_rsh_no_tree_spawn"] == "1"
    assert variables["HOSTFILE"] == "/kube-openmpi/generated/hostfile"


def test_mounts_are_those_that_manifests_may_not_use() -> None:
    main = container({"spec": master(without_ssh())}, "mpi-master")
    assert {each["mountPath"] for each in main["volumeMounts"]} == set(MOUNTS["exec"])
    assert agent.PATHS.hostfile == "/kube-openmpi/generated/hostfile"


def test_kubectl_is_brought_with_the_limits_of_the_master() -> None:
    job = without_ssh()
    main = job["spec"]["master"]["template"]["spec"]["containers"][0]
    main["resources"] = {"limits": {"cpu": "1", "nvidia.com/gpu": 1}}
    main["securityContext"] = {"runAsNonRoot": True}
    (step,) = master(job)["initContainers"]
    assert step["image"] == "traincrew/helper:test"
    assert step["command"] == ["/kube-openmpi/assets/download_kubectl.sh"]
    assert step["resources"] == {"limits": {"cpu": "1"}}
    assert step["securityContext"] == {"runAsNonRoot": True}


def test_containers_wait_unless_the_user_says_what_they_do() -> None:
    job = interactive(transport="exec")
    waits = ["/bin/sh", "-c", agent.WAIT]
    assert container({"spec": master(job)}, "mpi-master")["command"] == waits
    assert container({"spec": worker(job)}, "mpi-worker")["command"] == waits
    own = job["spec"]["workers"]["template"]["spec"]["containers"][0]
    own["args"] = ["serve"]
    found = container({"spec": worker(job)}, "mpi-worker")
    assert found["args"] == ["serve"]
    assert "command" not in found


# -- the scripts of the containers ----------------------------------------------------------------


def test_a_container_that_waits_ends_when_it_is_told_to() -> None:
    # It says that it is up when it has its trap.
    command = agent.WAIT.replace("while", "echo up; while", 1)
    process = subprocess.Popen(
        ["sh", "-c", command], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):  # its sleep, if it had begun
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=10)


@pytest.mark.parametrize(("command", "code"), [("exit 3", 3), ("true", 0), ("kill -9 $$", 137)])
def test_the_exit_code_is_that_of_the_command(command: str, code: int) -> None:
    result = subprocess.run(["sh", "-c", agent.RUN, "sh", command], check=False, timeout=30)
    assert result.returncode == code


def test_a_command_that_is_told_to_end_may_clean_up() -> None:
    command = f"{shlex.quote(sys.executable)} -c '{ENDING}'"
    process = subprocess.Popen(
        ["sh", "-c", agent.RUN, "sh", command], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert (output, process.returncode) == ("cleaned up\n", 7)


ENDING = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("up", flush=True)
signal.sigwait({signal.SIGTERM})
print("cleaned up", flush=True)
sys.exit(7)
"""
# With a handler and signal.pause(), a signal that comes just before the pause would be slept over.


# -- decisions ------------------------------------------------------------------------------------


def test_it_runs_without_a_secret() -> None:
    world = MPIWorld(without_ssh())
    world.start()
    assert world.key_pairs == 0
    assert not world.secrets
    assert "sshKeySecretName" not in world.status
    assert world.hosts == ["master", "worker-0", "worker-1"]
    assert {ROLE, BINDING, ACCOUNT} <= world.children.keys()


def names(world: MPIWorld) -> list[str]:
    found = world.children[ROLE]["rules"]
    return [*found[0]["resourceNames"]] if found else []


@pytest.mark.parametrize("workers", [3, 1, 0])
def test_the_role_follows_the_workers(workers: int) -> None:
    world = MPIWorld(without_ssh())
    world.start()
    world.children[SET]["spec"]["replicas"] = workers
    world.start()
    assert names(world) == [f"hello-worker-{index}" for index in range(workers)]
    assert world.hosts == ["master", *(f"worker-{index}" for index in range(workers))]


def test_what_somebody_has_changed_is_mended() -> None:
    world = MPIWorld(without_ssh())
    world.start()
    world.children[ROLE]["rules"] = []
    world.children[BINDING]["subjects"] = []
    world.settle()
    assert names(world) == ["hello-worker-0", "hello-worker-1"]
    assert [each["name"] for each in world.children[BINDING]["subjects"]] == ["hello-master"]


def test_nothing_is_granted_for_the_pods_of_somebody_else() -> None:
    world = MPIWorld(without_ssh())
    world.foreign.add(SET)
    world.settle()
    assert ROLE not in world.children
    assert BINDING not in world.children
    assert "hello-worker" in world.status["message"]


def test_a_running_master_keeps_the_permissions_of_its_account() -> None:
    """Another account is that of the next master."""
    world = MPIWorld(without_ssh())
    world.start()
    master = copy.deepcopy(world.job["spec"]["master"])
    master["template"]["spec"]["serviceAccountName"] = "cloud"
    world.edit(master=master)
    world.settle()
    assert [each["name"] for each in world.children[BINDING]["subjects"]] == ["hello-master"]
