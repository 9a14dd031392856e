"""MPIClusters on the real cluster: mpiexec reaches pods on all nodes, with its DNS and RBAC.

The operator runs in its own containers, Open MPI and sshd in those of `images/openmpi`. More of how
MPIClusters end and recover is in suites/training on the embedded cluster.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hack.cluster import binaries
from hack.cluster.processes import NotReady
from suites import git_servers, image_registry, openmpi_loop
from suites.openmpi_code import UPDATE_SECONDS as LOOKS_EVERY
from suites.openmpi_code import by_all, said, started, updated
from suites.openmpi_user import (
    EXAMPLES,
    HOSTFILE,
    UPDATE_SECONDS,
    example,
    lines,
    one_shot,
    restarts,
    with_code,
    without_ssh,
)
from suites.scenarios.clusters import FragileNode

import variation
from hack import images

from . import node_processes
from .install_support import ROOT, SECONDS, denied, namespace, run
from .openmpi_support import User, installed, place

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster

SPACE, RESTRICTED = "openmpi", "openmpi-restricted"
LEVEL = "pod-security.kubernetes.io/enforce=restricted"
IMAGES = ("openmpi", "openmpi-chainermn", "chainermn", "git")
WITHIN = LOOKS_EVERY + 25
"""Seconds within which all pods of a busy machine have a new commit."""
NO_SSH = "traincrew/chainermn:0.1.0"
SCALED = ("mpicluster/play", "statefulset/play-worker")
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def user(real_cluster: RealCluster) -> Iterator[User]:
    """A user with a namespace; the operator is installed."""
    with installed(real_cluster, SPACE, *IMAGES) as user:
        yield user


# -- interactive -------------------------------------------------------------------------------


def spread(name: str) -> dict[str, Any]:
    """Return a constraint that puts a worker of a cluster on each node."""
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"release": name, "role": "worker"}},
    }


@pytest.fixture(scope="module")
def playground(user: User) -> str:
    """An interactive cluster with a worker on each node."""
    document = example("interactive.yaml", "play")
    template = document["spec"]["workers"]["template"]
    template["spec"]["topologySpreadConstraints"] = [spread("play")]
    user.create(document)
    user.until_condition("play", "Running")
    return "play"


def test_mpiexec_starts_processes_on_all_nodes(user: User, playground: str) -> None:
    workers = [user.pods(playground)[f"{playground}-worker-{index}"] for index in range(2)]
    nodes = {pod["spec"]["nodeName"] for pod in workers}
    assert nodes == {node.name for node in user.cluster.nodes}
    user.until_hosts(playground, 2, UPDATE_SECONDS)
    user.runs_everywhere(playground, 2)


@pytest.mark.parametrize("what", [SCALED[variation.NUMBER % len(SCALED)]])
def test_scaling_by(user: User, playground: str, what: str) -> None:
    """The hostfile in the master follows, and mpiexec starts what it lists.

    By one of the two in each run; on the embedded cluster by both.
    """
    master = f"{playground}-master"
    before = user.pods(playground)[master]
    openmpi_loop.scale(user, what, playground, openmpi_loop.SCALED)
    after = user.pods(playground)[master]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_lost_master_comes_back(user: User, playground: str) -> None:
    before = user.pods(playground)[f"{playground}-master"]
    user.kubectl("delete", "pod", f"{playground}-master")
    user.until_replaced(playground, before)
    user.until_hosts(playground, 2, UPDATE_SECONDS)
    user.runs_everywhere(playground, 2)


def test_a_killed_worker_and_a_killed_master_are_started_again(user: User, playground: str) -> None:
    """In their pods, and no other pod is touched."""
    before = user.pods(playground)
    for killed in (f"{playground}-worker-0", f"{playground}-master"):
        node_processes.kill_container(before[killed]["metadata"]["uid"], "/init.sh")
        user.until_restarted(playground, before[killed])
        user.until_hosts(playground, 2, UPDATE_SECONDS)
        user.runs_everywhere(playground, 2)
    after = user.pods(playground)
    assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == {
        name: pod["metadata"]["uid"] for name, pod in before.items()
    }
    assert restarts(after[f"{playground}-worker-1"]) == 0


def test_the_gateway_and_the_disruption_budget(user: User, playground: str) -> None:
    """The master is reached by any node's address, and workers cannot be evicted."""
    budget, port = {"podDisruptionBudget": {"enabled": True}}, 30224
    gateway = {"gateway": {"enabled": True, "nodePort": port}}
    patch = json.dumps({"spec": {"ssh": gateway, "workers": budget}})
    user.kubectl("patch", "mpicluster", playground, "--type=merge", "-p", patch)
    addresses = "jsonpath={.items[*].status.addresses[?(@.type=='InternalIP')].address}"
    ssh = ("exec", f"{playground}-worker-0", "--", "ssh", f"-p{port}")
    for address in user.cluster.kubectl("get", "nodes", "-o", addresses).split():

        def reached(address: str = address) -> bool:
            try:
                return user.kubectl(*ssh, address, "hostname") == f"{playground}-master\n"
            except NotReady:  # kube-proxy has not seen the Service yet
                return False

        user.until(f"the master is reached by {address}", reached, 60)

    worker = f"{playground}-worker-0"
    user.until("the budget counts", lambda: user.get("pdb", f"{worker[:-2]}-pdb").get("status"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": worker}}
    path = f"/api/v1/namespaces/{SPACE}/pods/{worker}/eviction"
    with pytest.raises(NotReady, match="would violate the pod's disruption budget"):
        user.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def test_keys_are_rotated(user: User, playground: str) -> None:
    """By then the kubelets, which look every 10 seconds, have given the pods the new Secret."""
    user.runs_everywhere(playground, 2)
    user.rotate_keys(playground, 2, overlap=60)
    user.runs_everywhere(playground, 2)


def test_the_loss_of_a_node(user: User) -> None:
    """The hostfile loses its worker, the others go on, and it comes back with the node."""
    node = FragileNode(user.cluster)
    (stays,) = {each.name for each in user.cluster.nodes} - {node.name}
    document = example("interactive.yaml", "loses-node")
    spec = document["spec"]
    spec["master"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": stays}
    spec["workers"]["template"]["spec"]["topologySpreadConstraints"] = [spread("loses-node")]
    user.create(document)
    user.until_condition("loses-node", "Running")
    before = user.pods("loses-node")
    lost = next(name for name, pod in before.items() if pod["spec"]["nodeName"] == node.name)
    kept = {name: pod["metadata"]["uid"] for name, pod in before.items() if name != lost}
    try:
        node.lose()
        user.until("it is not listed", lambda: len(user.hosts("loses-node")) == 2)
        assert lost not in str(user.hosts("loses-node"))
        assert lines(user.mpiexec("loses-node", 2, "hostname")) == sorted(kept)
    finally:
        node.mend()
    # As another pod if it was evicted meanwhile, else as the same one.
    user.until_hosts("loses-node", 2, SECONDS)
    user.runs_everywhere("loses-node", 2)
    after = user.pods("loses-node")
    assert {name: after[name]["metadata"]["uid"] for name in kept} == kept
    user.gone("loses-node")


def test_nothing_of_a_deleted_cluster_is_left(user: User, playground: str) -> None:
    user.gone(playground)


# -- one-shot ----------------------------------------------------------------------------------


def test_the_cluster_ends_with_its_command(user: User) -> None:
    mpiexec = f"mpiexec --allow-run-as-root --hostfile {HOSTFILE} -n 3 --map-by ppr:1:node"
    user.create(one_shot("succeeds", f"{mpiexec} hostname"))
    user.until_condition("succeeds", "Succeeded")
    assert user.mpi_cluster("succeeds")["status"]["exitCode"] == 0
    log = lines(user.kubectl("logs", "succeeds-master"))
    assert log == [f"succeeds-{host}" for host in ("master", "worker-0", "worker-1")]
    user.until("the workers are gone", lambda: list(user.pods("succeeds")) == ["succeeds-master"])
    assert user.get("statefulset", "succeeds-worker")["spec"]["replicas"] == 0


def test_a_command_that_fails_is_run_again(user: User) -> None:
    user.create(one_shot("fails", "echo tried; exit 3", backoffLimit=1))
    condition = user.until_condition("fails", "Failed")
    assert condition["reason"] == "BackoffLimitExceeded"
    assert "exited with code 3" in condition["message"]
    status = user.mpi_cluster("fails")["status"]
    assert (status["exitCode"], status["failures"]) == (3, 2)
    (container,) = user.pods("fails")["fails-master"]["status"]["containerStatuses"]
    assert container["restartCount"] == 1
    # By then nothing restarts it any more.
    user.until(
        "the master has failed",
        lambda: user.pods("fails")["fails-master"]["status"]["phase"] == "Failed",
    )
    assert user.kubectl("logs", "fails-master") == "tried\n"


def test_a_worker_that_is_killed_while_ranks_run(user: User) -> None:
    """The command fails, is run again when the worker is back, and succeeds."""
    user.create(openmpi_loop.endless_first("loses"))
    openmpi_loop.until_begun(user, "loses")
    uid = user.pods("loses")["loses-worker-1"]["metadata"]["uid"]
    node_processes.kill_container(uid, "/init.sh")
    openmpi_loop.succeeds_in_the_second_attempt(user, "loses")


def test_processes_start_without_ssh(user: User) -> None:
    """The master may start them in its workers, and do nothing else; workers may do nothing."""
    user.create(without_ssh(example("interactive.yaml", "bare"), NO_SSH))
    user.until_condition("bare", "Running")
    for count in (2, 3):
        user.kubectl("scale", "mpicluster", "bare", f"--replicas={count}")
        user.until_workers("bare", count)
        user.until_hosts("bare", count, UPDATE_SECONDS)
        user.runs_everywhere("bare", count)
    kubectl = ("/kube-openmpi/kube/kubectl", f"--namespace={SPACE}")
    there = ("exec", "bare-master", "--", *kubectl)
    for words in (("get", "pods"), ("get", "secrets"), ("exec", "bare-master", "--", "true")):
        with pytest.raises(NotReady, match="Forbidden"):
            user.kubectl(*there, *words)
    account = f"--as=system:serviceaccount:{SPACE}:default"
    assert denied(user.cluster, "create", "pods", "--subresource=exec", account, f"-n={SPACE}")
    user.gone("bare")


def test_a_command_without_ssh(user: User) -> None:
    """It succeeds, and what keeps a process from starting is in the status."""
    mpiexec = f"mpiexec --hostfile {HOSTFILE} -n 3 --map-by ppr:1:node"
    user.create(without_ssh(one_shot("plain", f"{mpiexec} hostname"), NO_SSH))
    user.until_condition("plain", "Succeeded")
    log = lines(user.kubectl("logs", "plain-master"))
    assert log == [f"plain-{host}" for host in ("master", "worker-0", "worker-1")]
    lost = "mpiexec --host lost-worker-7.lost -n 1 hostname"
    user.create(without_ssh(one_shot("lost", lost, backoffLimit=0), NO_SSH))
    message = user.until_condition("lost", "Failed")["message"]
    assert 'pods "lost-worker-7" is forbidden' in message


def test_where_no_root_is_allowed(user: User) -> None:
    """The example for namespaces with the Pod Security level `restricted`."""
    with namespace(user.cluster, RESTRICTED):
        user.cluster.kubectl("label", "namespace", RESTRICTED, LEVEL)
        there = User(user.cluster, RESTRICTED)
        document = example("one-shot-non-root.yaml", "digits")
        there.create(document)
        there.until_condition("digits", "Succeeded")
        log = there.kubectl("logs", "digits-master")
        assert float(log.rpartition("validation accuracy: ")[2].split()[0]) >= 0.95, log


def test_a_values_file_and_helm(user: User) -> None:
    helm, there = binaries.build("helm"), f"--namespace={SPACE}"
    values = f"--values={EXAMPLES / 'values/one-shot.yaml'}"
    run(helm, user.cluster, "install", "mine", str(ROOT / "charts/kube-openmpi"), there, values)
    user.until_condition("mine", "Succeeded")
    assert "validation accuracy: 0.9" in user.kubectl("logs", "mine-master")
    run(helm, user.cluster, "uninstall", "mine", there, "--wait", f"--timeout={SECONDS:g}s")
    user.until("no pod of it is left", lambda: not user.pods("mine"))


# -- private places ----------------------------------------------------------------------------


def test_code_of_a_public_and_a_private_repository(user: User, tmp_path: Path) -> None:
    there = place(user.cluster)
    repository = git_servers.Repository(tmp_path)
    with git_servers.public(repository, there) as address:
        found = user.says(with_code("code", address, workers=2, branch="main"))
    assert found == [f"code-{host} says hello" for host in ("master", "worker-0", "worker-1")]

    private = git_servers.Private(repository, tmp_path, there)
    with private.serving():
        secret = user.secret("git", ssh=private.key, known_hosts=private.known_hosts)
        found = user.says(with_code("mine", private.address, secretName=secret))
    assert found == ["mine-master says hello"]


def test_running_pods_get_new_commits(user: User, tmp_path: Path) -> None:
    """All of them, none is restarted, and the containers that look for commits end with others."""
    repository = git_servers.Repository(tmp_path)
    with git_servers.public(repository, place(user.cluster)) as address:
        user.create(updated("fresh", address, subPath="mine/examples"))
        user.until_condition("fresh", "Running")
        assert said(user, "fresh") == by_all("fresh", "says hello")
        before = started(user, "fresh")
        commit = repository.change(say="echo $(hostname) says $1 two\n")
        user.until(
            "all pods have the second commit",
            lambda: said(user, "fresh") == by_all("fresh", "says hello two"),
            WITHIN,
        )
        master = ("exec", "fresh-master", "-c", "mpi-master", "--")
        version = user.kubectl(*master, "readlink", "/code/..data").strip()
        assert version == f"..code/{commit}/examples"
        assert started(user, "fresh") == before, "all are ready, and none was restarted"
        user.gone("fresh")

        ends = with_code("ends", address, workers=1, retries=0, updateSeconds=3600)
        assert user.says(ends) == [f"ends-{host} says hello two" for host in ("master", "worker-0")]


@pytest.mark.skipif(
    image_registry.PROGRAM is None, reason="needs a registry: apt-get install docker-registry"
)
def test_an_image_of_a_private_registry(user: User, tmp_path: Path) -> None:
    """It cannot be pulled, and status says why, until a Secret with the password is named."""
    image = images.image("openmpi").tagged
    with image_registry.serving(user.cluster, tmp_path, image, "team/openmpi:1") as full:
        document = one_shot("ours", "mpiexec --allow-run-as-root -n 1 hostname")
        pods = [document["spec"][role]["template"]["spec"] for role in ("master", "workers")]
        for pod in pods:
            pod["containers"][0] |= {"image": full, "imagePullPolicy": "Always"}
        user.create(document)
        refused = rf"ImagePull.*{re.escape(full)}.*(authorization failed|no basic auth)"
        user.until(
            "the refusal is in the status",
            lambda: re.search(refused, user.mpi_cluster("ours").get("status", {})["message"]),
        )
        user.gone("ours")

        user.create(image_registry.pull_secret("registry"))
        for pod in pods:
            pod["imagePullSecrets"] = [{"name": "registry"}]
        assert user.says(document) == ["ours-master"]
