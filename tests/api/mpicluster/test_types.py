"""MPICluster: its CustomResourceDefinition, its defaults, and its rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from api.broken import ABSENT, Broken
from api.mpicluster.broken import FAILED, REFUSED
from api.mpicluster.manifests import interactive, one_shot, template, with_code
from api.test_crd import nodes
from traincrew.api.crd import definition, schema
from traincrew.api.kinds.mpicluster import slots as computed
from traincrew.api.kinds.mpicluster import types as api
from traincrew.api.kinds.mpicluster.definition import DEFINITION
from traincrew.api.kinds.mpicluster.rules import problems
from traincrew.api.meta import ObjectMeta
from traincrew.api.podtemplate import completed

SCHEMA = schema(DEFINITION)
SPEC = SCHEMA["properties"]["spec"]


# -- the definition -------------------------------------------------------------------------------


def test_names_columns_and_scale() -> None:
    document = definition(DEFINITION)
    (version,) = document["spec"]["versions"]
    columns = version["additionalPrinterColumns"]

    assert document["metadata"]["name"] == "mpiclusters.traincrew.dev"
    assert document["spec"]["names"] == {
        "plural": "mpiclusters",
        "singular": "mpicluster",
        "kind": "MPICluster",
        "listKind": "MPIClusterList",
        "shortNames": ["mpic"],
        "categories": ["all"],
    }
    assert version["name"] == "v1alpha1"
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["Phase", "Mode", "Workers", "Age"]
    wide = [column["name"] for column in columns if column.get("priority")]
    assert wide == ["Progress", "Restarts", "Reason", "Message"]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.workers.replicas",
            "statusReplicasPath": ".status.replicaStatuses.worker.active",
            "labelSelectorPath": ".status.replicaStatuses.worker.selector",
        },
    }


def test_static_defaults_are_those_of_kube_openmpi() -> None:
    defaults = {path: node["default"] for path, node in nodes(SPEC) if "default" in node}
    own = {path: value for path, value in defaults.items() if "template.spec." not in path}

    assert own == {
        ".appName": "kube-openmpi",
        ".hostfile.autoUpdate": True,
        ".hostfile.updateSeconds": 15,
        ".master.oneShot.scaleDownWorkers": True,
        ".networkPolicy.enabled": False,
        ".runPolicy.cleanPodPolicy": "Running",
        ".runPolicy.schedulingPolicy.scheduleTimeoutSeconds": 1800,
        ".runPolicy.suspend": False,
        ".ssh.gateway.enabled": False,
        ".ssh.gateway.nodePort": 30220,
        ".ssh.keyGeneration": 1,
        ".ssh.keyOverlapSeconds": 300,
        ".transport": "ssh",
        ".workers.podDisruptionBudget.enabled": False,
        ".workers.podManagementPolicy": "Parallel",
        ".workers.replicas": 4,
    }
    assert defaults[".master.template.spec.restartPolicy"] == "OnFailure"
    assert defaults[".workers.template.spec.restartPolicy"] == "Always"


def test_defaults_of_the_types_are_those_of_the_schema() -> None:
    spec = api.decode(interactive()["spec"])

    assert msgspec.to_builtins(spec.hostfile) == {}
    assert (spec.app_name, spec.hostfile.update_seconds) == ("kube-openmpi", 15)
    assert (spec.ssh.key_secret_name, spec.ssh.gateway.node_port) == (None, 30220)
    assert (spec.slots, spec.code_sync, spec.network_policy.enabled) == (None, [], False)


# -- the mode, retries and slots ------------------------------------------------------------------


def test_the_mode_follows_the_command() -> None:
    spec = api.decode(one_shot()["spec"])

    assert api.decode(interactive()["spec"]).mode == "Interactive"
    assert (spec.mode, spec.backoff_limit) == ("OneShot", 6)
    assert spec.one_shot is not None
    assert spec.one_shot.scale_down_workers


def test_no_retry_is_a_limit_of_its_own() -> None:
    manifest = interactive(runPolicy={"backoffLimit": 0})

    assert api.decode(manifest["spec"]).backoff_limit == 0


@pytest.mark.parametrize(
    ("resources", "slots"),
    [
        (None, None),
        ({}, None),
        ({"limits": None}, None),
        ({"limits": {"cpu": 4}}, None),
        ({"limits": {"nvidia.com/gpu": 4}}, 4),
        ({"limits": {"nvidia.com/gpu": "8"}}, 8),
        ({"limits": {"amd.com/gpu": 2}}, 2),
        ({"limits": {"gpu": 1}}, 1),
        ({"limits": {"alpha.kubernetes.io/nvidia-gpu": 2}}, 2),
        ({"limits": {"gpu.intel.com/i915": 2}}, 2),
        ({"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": 2}}, 2),
        ({"limits": {"nvidia.com/gpu": 0}}, None),
        ({"limits": {"nvidia.com/gpu": "1500m"}}, None),
        ({"limits": {"aliyun.com/gpu-mem": 16}}, None),
    ],
)
def test_slots_follow_the_gpus_of_a_worker(resources: Any, slots: int | None) -> None:
    manifest = interactive()
    if resources is not None:
        worker = manifest["spec"]["workers"]["template"]["spec"]["containers"][0]
        worker["resources"] = resources

    assert computed.slots(api.decode(manifest["spec"])) == slots


def test_explicit_slots_take_precedence_and_other_containers_do_not_count() -> None:
    gpus = {"limits": {"nvidia.com/gpu": 4}}
    manifest = interactive()
    workers = manifest["spec"]["workers"]["template"]["spec"]["containers"]
    workers.append({"name": "side", "resources": gpus})
    assert computed.slots(api.decode(manifest["spec"])) is None

    workers[0]["resources"] = gpus
    assert computed.slots(api.decode({**manifest["spec"], "slots": 2})) == 2


def test_a_single_unnamed_container_is_named() -> None:
    unnamed = {"spec": {"containers": [{"image": "x"}]}}

    named = completed(unnamed, "mpi-worker")
    assert named["spec"]["containers"] == [{"image": "x", "name": "mpi-worker"}]
    assert completed(template("a"), "mpi-worker") == template("a")


# -- rules ----------------------------------------------------------------------------------------


def found_by_code(manifest: dict[str, Any]) -> str:
    """What the operator says of a manifest that got past the API."""
    metadata = msgspec.convert(manifest["metadata"], ObjectMeta)
    try:
        spec = api.decode(manifest["spec"])
    except msgspec.ValidationError as error:
        return str(error)
    return "; ".join(str(problem) for problem in problems(metadata, spec))


@pytest.mark.parametrize("manifest", [interactive(), one_shot(), with_code()])
def test_valid_manifests_have_no_problems(manifest: dict[str, Any]) -> None:
    assert found_by_code(manifest) == ""


def test_what_users_may_mount_and_name() -> None:
    """Volumes below and beside the directories of the operator."""
    manifest = interactive()
    pod = manifest["spec"]["workers"]["template"]["spec"]
    pod["volumes"] = [{"name": "openmpi", "emptyDir": {}}]
    pod["containers"][0]["volumeMounts"] = [
        {"name": "openmpi", "mountPath": path}
        for path in ("/kube-openmpi/data", "/ssh-key", "/ssh-key/openmpi-2", "/")
    ]

    assert found_by_code(manifest) == ""


CEL_WORDS = ("is a key of", "is required: write", "metadata.name", "container named", "is empty",
             "restartPolicy", "begin with it")  # fmt: skip


BY_RULES = [
    broken for broken in REFUSED if any(word in text for text in broken.says for word in CEL_WORDS)
]


@pytest.mark.parametrize("broken", BY_RULES, ids=lambda broken: broken.title)
def test_what_cel_refuses_the_operator_refuses_as_well(broken: Broken) -> None:
    assert found_by_code(broken.manifest()) != ""


@pytest.mark.parametrize("broken", FAILED, ids=lambda broken: broken.title)
def test_rules_that_only_code_can_check(broken: Broken) -> None:
    said = found_by_code(broken.manifest())

    for text in broken.says:
        assert text in said


def test_a_template_that_got_past_the_schema() -> None:
    for value in (5, {"spec": 5}, {"spec": {"containers": "x"}}):
        broken = Broken(interactive(), "spec/master/template", value, ())
        assert "spec.master.template" in found_by_code(broken.manifest()) or (
            "$.master.template" in found_by_code(broken.manifest())
        )
    nothing = Broken(interactive(), "spec/workers", ABSENT, ())
    assert "spec.workers.template: it is required" in found_by_code(nothing.manifest())
