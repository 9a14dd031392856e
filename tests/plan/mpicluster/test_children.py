"""The children of each shape of MPICluster, against YAML files and the contract of kube-openmpi.

To renew the files after a wanted change: ``REGENERATE=1 pytest tests/plan``; then read the diff.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from plan.goldens import assert_golden, owner_of
from plan.mpicluster.manifests import everything, interactive, one_shot, without_ssh
from plan.world import OPTIONS
from traincrew.api.kinds.mpicluster import types as api
from traincrew.plan.mpicluster import children, hostfile

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDENS = Path(__file__).parent / "goldens"
SHAPES = {
    "interactive": interactive(),
    "one-shot": one_shot(),
    "everything": everything(),
    "without-ssh": without_ssh(),
}
every_shape = pytest.mark.parametrize("shape", SHAPES)


def documents(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all children of a cluster whose workers are ready."""
    spec, mine = api.decode(job["spec"]), owner_of(job)
    replicas = spec.workers.replicas
    secret = spec.ssh.key_secret_name or children.Names(mine.name).ssh_key
    hosts = hostfile.text(mine.name, spec, range(replicas))
    made = []
    if spec.transport == "exec":
        secret = ""
        pods = [children.Names(mine.name).worker(index) for index in range(replicas)]
        made += [children.service_account(mine, spec), children.role(mine, spec, pods)]
        made += [children.role_binding(mine, spec)]
    elif not spec.ssh.key_secret_name:
        made.append(children.ssh_key(mine, spec, 1))
    made += [children.assets(mine, spec, hosts), children.service(mine, spec)]
    if spec.ssh.gateway.enabled:
        made.append(children.gateway(mine, spec))
    if spec.workers.pod_disruption_budget.enabled:
        made.append(children.budget(mine, spec, replicas))
    if spec.network_policy.enabled:
        made += children.network_policies(mine, spec)
    made.append(
        children.workers(mine, spec, OPTIONS.git_image, key_secret=secret, replicas=replicas)
    )
    made.append(children.master(mine, spec, OPTIONS, key_secret=secret, hostfile=hosts))
    return made


def child(job: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        each for each in documents(job) if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return found


def container(pod: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [each for each in pod["spec"]["containers"] if each["name"] == name]
    assert isinstance(found, dict)
    return found


@every_shape
def test_children_match_the_golden_files(shape: str) -> None:
    assert_golden(GOLDENS / f"{shape}.yaml", documents(SHAPES[shape]))


@every_shape
def test_the_manifest_is_not_modified(shape: str) -> None:
    before = msgspec.json.encode(SHAPES[shape])
    documents(SHAPES[shape])
    assert msgspec.json.encode(SHAPES[shape]) == before


def test_names_are_those_of_the_chart() -> None:
    job = everything()
    del job["spec"]["ssh"]["keySecretName"]
    assert {(each["kind"], each["metadata"]["name"]) for each in documents(job)} == {
        ("Secret", "train-ssh-key"),
        ("ConfigMap", "train-assets"),
        ("Service", "train"),
        ("Service", "train-ssh-gateway"),
        ("PodDisruptionBudget", "train-worker-pdb"),
        ("NetworkPolicy", "train-allow-internal"),
        ("NetworkPolicy", "train-allow-from-external"),
        ("StatefulSet", "train-worker"),
        ("Pod", "train-master"),
    }


@every_shape
def test_labels_are_those_of_the_chart(shape: str) -> None:
    job = SHAPES[shape]
    for document in documents(job):
        mine = document["metadata"]["labels"]
        name = job["metadata"]["name"]
        app = job["spec"].get("appName", "kube-openmpi")
        assert mine["app"] == app
        assert mine["chart"] == "kube-openmpi-0.7.0"
        assert mine["release"] == name
        assert mine["mpicluster.traincrew.dev/name"] == name


@every_shape
def test_selectors_select_the_pods(shape: str) -> None:
    job = SHAPES[shape]
    name = job["metadata"]["name"]
    master = child(job, "Pod", f"{name}-master")["metadata"]["labels"]
    workers = child(job, "StatefulSet", f"{name}-worker")
    worker = workers["spec"]["template"]["metadata"]["labels"]
    assert (master["role"], worker["role"]) == ("master", "worker")

    def selects(selector: dict[str, str]) -> tuple[bool, bool]:
        return selector.items() <= master.items(), selector.items() <= worker.items()

    assert selects(child(job, "Service", name)["spec"]["selector"]) == (True, True)
    assert selects(workers["spec"]["selector"]["matchLabels"]) == (False, True)
    if shape == "everything":
        gateway = child(job, "Service", f"{name}-ssh-gateway")["spec"]["selector"]
        assert selects(gateway) == (True, False)
        budget = child(job, "PodDisruptionBudget", f"{name}-worker-pdb")["spec"]
        assert selects(budget["selector"]["matchLabels"]) == (False, True)
        inside, outside = (
            child(job, "NetworkPolicy", f"{name}-{policy}")["spec"]["podSelector"]["matchLabels"]
            for policy in ("allow-internal", "allow-from-external")
        )
        assert selects(inside) == (True, True)
        assert selects(outside) == (True, False)


def test_the_gateway_leads_to_the_port_of_sshd() -> None:
    (port,) = child(everything(), "Service", "train-ssh-gateway")["spec"]["ports"]
    assert (port["port"], port["targetPort"], port["nodePort"]) == (22, 2022, 30300)


def test_the_keys_are_mounted_for_their_owner_only() -> None:
    for kind, name in (("Pod", "hello-master"), ("StatefulSet", "hello-worker")):
        found = child(interactive(), kind, name)
        pod = found if kind == "Pod" else found["spec"]["template"]
        (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == "kube-openmpi-ssh-key"]
        assert volume["secret"] == {"secretName": "hello-ssh-key", "defaultMode": 0o400}
        main = container(pod, "mpi-master" if kind == "Pod" else "mpi-worker")
        assert {"name": "kube-openmpi-ssh-key", "mountPath": "/ssh-key/openmpi"} in main[
            "volumeMounts"
        ]


def test_the_master_finds_the_hostfile_and_has_a_host_name() -> None:
    pod = child(interactive(), "Pod", "hello-master")
    main = container(pod, "mpi-master")
    assert {"name": "HOSTFILE", "value": "/kube-openmpi/generated/hostfile"} in main["env"]
    assert "command" not in main
    mounts = {each["mountPath"]: each["name"] for each in main["volumeMounts"]}
    assert mounts["/kube-openmpi/generated"] == "kube-openmpi-hostfile-dir"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("hello-master", "hello")


def test_a_one_shot_master_runs_the_command() -> None:
    main = container(child(one_shot(), "Pod", "hello-master"), "mpi-master")
    assert main["command"] == ["/init.sh", "mpiexec hello"]
    assert {"name": "ONE_SHOT", "value": "true"} in main["env"]


def test_what_the_user_wrote_is_kept() -> None:
    master = child(everything(), "Pod", "train-master")
    main = container(master, "mpi-master")
    assert [each["value"] for each in main["env"] if each["name"] == "HOSTFILE"] == ["/mine"]
    assert main["ports"] == [{"containerPort": 2022, "name": "ssh", "protocol": "TCP"}]
    assert container(master, "sidecar")["image"] == "busybox:1"
    assert "volumeMounts" not in container(master, "sidecar")
    assert master["metadata"]["labels"]["tier"] == "front"
    assert master["metadata"]["labels"]["app"] == "chainermn", "Services depend on it"
    worker = child(everything(), "StatefulSet", "train-worker")["spec"]["template"]
    only = container(worker, "mpi-worker")
    assert only["readinessProbe"] == {"exec": {"command": ["true"]}}
    assert only["terminationMessagePolicy"] == "File"


def test_a_secret_leaves_a_plan_without_data() -> None:
    secret = child(interactive(), "Secret", "hello-ssh-key")
    assert not {"data", "stringData"} & secret.keys()


# -- the hostfile -------------------------------------------------------------------------------


def test_the_hostfile_begins_with_the_master() -> None:
    spec = api.decode(interactive()["spec"])
    assert hostfile.text("hello", spec, [2, 0, 10]) == (
        "hello-master.hello\nhello-worker-0.hello\nhello-worker-2.hello\nhello-worker-10.hello\n"
    )


def test_the_hostfile_has_slots_only_if_they_are_known() -> None:
    job = interactive()
    assert "slots" not in hostfile.text("hello", api.decode(job["spec"]), [0])
    resources = {"limits": {"amd.com/gpu": "2"}}
    job["spec"]["workers"]["template"]["spec"]["containers"][0]["resources"] = resources
    assert hostfile.text("hello", api.decode(job["spec"]), [0]) == (
        "hello-master.hello slots=2\nhello-worker-0.hello slots=2\n"
    )
    job["spec"]["slots"] = 8
    assert "hello-worker-0.hello slots=8" in hostfile.text("hello", api.decode(job["spec"]), [0])


# -- what restarts pods -------------------------------------------------------------------------


def fingerprint(job: dict[str, Any], kind: str, name: str) -> str:
    text = child(job, kind, name)["metadata"]["annotations"]["traincrew.dev/fingerprint"]
    assert isinstance(text, str)
    return text


def test_only_what_pods_depend_on_changes_their_fingerprint() -> None:
    before = [fingerprint(one_shot(), *key) for key in PODS]
    scaled = one_shot(workers=7, networkPolicy={"enabled": True}, slots=3)
    assert [fingerprint(scaled, *key) for key in PODS] == before
    other = one_shot(command="mpiexec other")
    assert [fingerprint(other, *key) for key in PODS] != before
    assert fingerprint(other, *PODS[0]) == before[0]
    code = [{"name": "c", "repository": "R", "mountPath": "/m"}]
    fetched = [fingerprint(one_shot(codeSync=code), *key) for key in PODS]
    assert not set(fetched) & set(before)


PODS = [("StatefulSet", "hello-worker"), ("Pod", "hello-master")]


@pytest.mark.parametrize(
    ("job", "policy"),
    [
        (one_shot(runPolicy={"backoffLimit": 0}), "Never"),
        (one_shot(runPolicy={"backoffLimit": 1}), "OnFailure"),
        (one_shot(), "OnFailure"),
        (interactive(runPolicy={"backoffLimit": 0}), "OnFailure"),
    ],
)
def test_only_a_command_that_may_be_run_again_is_restarted(
    job: dict[str, Any], policy: str
) -> None:
    assert child(job, "Pod", "hello-master")["spec"]["restartPolicy"] == policy


@pytest.mark.parametrize("make", [interactive, one_shot, without_ssh])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("a" * 20, False),  # a...a-master.a...a: 48 characters
        ("a" * 21, True),
        ("large-language-model-training", True),
        ("model-7-" + "a" * 36, False),
        ("a" * 40 + "7", False),  # a...a-worker-0 has 48 before the digit of its number
        ("a" * 45, True),
    ],
)
def test_the_master_lists_hosts_whose_names_are_too_long_to_be_compressed(
    make: Callable[[str], dict[str, Any]], name: str, given: bool
) -> None:
    env = container(child(make(name), "Pod", f"{name}-master"), "mpi-master")["env"]
    assert ({"name": "OMPI_MCA_regx", "value": "naive"} in env) is given


def test_the_users_way_of_listing_hosts_is_kept() -> None:
    job = interactive("a" * 45)
    mine = {"name": "OMPI_MCA_regx", "value": "reverse"}
    job["spec"]["master"]["template"]["spec"]["containers"][0]["env"] = [mine]
    env = container(child(job, "Pod", f"{'a' * 45}-master"), "mpi-master")["env"]
    assert [each for each in env if each["name"] == "OMPI_MCA_regx"] == [mine]
