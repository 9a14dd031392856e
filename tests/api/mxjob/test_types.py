"""MxJob: its CustomResourceDefinition, its defaults, and what is stored."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio

from api.mxjob.broken import REFUSED
from api.test_crd import nodes
from harness import MX_JOBS, OLDER_MX_JOBS, Cluster
from plan.mxjob.manifests import distributed, local, replica, template, upstream
from traincrew.api.crd import definition, schema
from traincrew.api.kinds.mxjob import types as api
from traincrew.api.kinds.mxjob.definition import DEFINITION
from traincrew.api.kinds.mxjob.rules import problems
from traincrew.api.meta import ObjectMeta
from traincrew.engine.resources import JOBS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from api.broken import Broken

SPEC = schema(DEFINITION)["properties"]["spec"]
UIDS = [f"8c2f4f1e-93a2-4d1f-8a86-{number:012x}" for number in range(2000)]


# -- the definition -------------------------------------------------------------------------------


def test_names_are_those_of_mxnet_operator_in_both_groups() -> None:
    current, older = (definition(kind) for kind in DEFINITION.served)

    assert current["metadata"]["name"] == "mxjobs.mxnet.mlkube.io"
    assert older["metadata"]["name"] == "mxjobs.mlkube.io"
    for document in (current, older):
        assert document["spec"]["scope"] == "Namespaced"
        assert document["spec"]["names"]["kind"] == "MxJob"
        (version,) = document["spec"]["versions"]
        assert version["name"] == "v1beta1"
        columns = version["additionalPrinterColumns"]
        shown = [column["name"] for column in columns if not column.get("priority")]
        assert shown == ["Phase", "State", "Restarts", "Age"]
    assert current["spec"]["versions"] == older["spec"]["versions"]
    assert "shortNames" in current["spec"]["names"]
    assert "shortNames" not in older["spec"]["names"]  # they would be ambiguous


def test_static_defaults_are_those_of_mxnet_operator() -> None:
    defaults = {path: node["default"] for path, node in nodes(SPEC) if "default" in node}
    own = {path: value for path, value in defaults.items() if "template.spec." not in path}

    assert own == {
        ".recoverWorkers": False,
        ".runPolicy.cleanPodPolicy": "Running",
        ".runPolicy.schedulingPolicy.scheduleTimeoutSeconds": 1800,
        ".runPolicy.suspend": False,
    }
    entry = api.decode({"replicaSpecs": [{"template": {}}]}).replica_specs[0]
    assert (entry.mx_replica_type, entry.replicas, entry.port) == ("WORKER", 1, 9091)


# -- the RuntimeId --------------------------------------------------------------------------------


def test_a_generated_id_is_that_of_mxnet_operator() -> None:
    found = [api.generated_id(uid) for uid in UIDS]

    assert all(re.fullmatch("[0-9a-z]{4}", each) for each in found)
    assert set("".join(found)) == set("0123456789abcdefghijklmnopqrstuvwxyz")


def test_a_generated_id_is_the_same_for_the_same_object_only() -> None:
    assert [api.generated_id(uid) for uid in UIDS] == [api.generated_id(uid) for uid in UIDS]
    assert len({api.generated_id(uid) for uid in UIDS[:100]}) > 95


@pytest.mark.parametrize("name", ["RuntimeId", "runtimeId"])
def test_a_given_id_is_kept_in_either_spelling(name: str) -> None:
    job = distributed()
    job["spec"][name] = "mine"
    spec = api.decode(job["spec"])

    assert spec.identifier == "mine"


# -- the port -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "port"),
    [
        ({}, 9091),
        ({"PsRootPort": 1234}, 1234),
        ({"psRootPort": 1234}, 1234),
        ({"PsRootPort": 1234, "psRootPort": 1234}, 1234),
    ],
)
def test_the_port_is_the_schedulers(fields: dict[str, Any], port: int) -> None:
    job = distributed()
    job["spec"]["replicaSpecs"][0] = replica("SCHEDULER", **fields)
    job["spec"]["replicaSpecs"][1]["PsRootPort"] = 4321
    spec = api.decode(job["spec"])

    assert spec.port == port


def test_a_single_unnamed_container_is_named_when_it_is_decoded() -> None:
    job = local()
    del job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["name"]
    before = copy.deepcopy(job)
    decoded = api.decode(job["spec"]).replica_specs[0].template["spec"]["containers"]

    assert [each["name"] for each in decoded] == ["mxnet"]
    assert job == before


# -- rules ----------------------------------------------------------------------------------------


def found_by_code(manifest: dict[str, Any]) -> str:
    """What the operator says of a manifest that got past the API."""
    metadata = msgspec.convert(manifest["metadata"], ObjectMeta)
    try:
        spec = api.decode(manifest["spec"])
    except msgspec.ValidationError as error:
        return str(error)
    return "; ".join(str(problem) for problem in problems(metadata, spec))


VALID = [
    *upstream(),
    distributed(),
    local(),
    distributed(runtimeId="ab"),
    distributed(RuntimeId="ab", runtimeId="ab"),
    distributed("x" * 46),
    distributed("x" * 34, RuntimeId="a" * 16),
    distributed(recoverWorkers=True),
    distributed(workers=api.MAX_REPLICAS),
    *(
        local(replicaSpecs=[{"template": template(env=env)}])
        for number in (0, 1, 7)
        for env in [[{"name": f"USER_{each}", "value": "x"} for each in range(number)]]
    ),
]


@pytest.mark.parametrize("manifest", VALID)
def test_valid_manifests_have_no_problems(manifest: dict[str, Any]) -> None:
    assert found_by_code(manifest) == ""


CEL = [
    broken
    for broken in REFUSED
    if any(word in text for word in ("replica_specs is", "jobMode", "replicaSpecs is",
           "only once", "must be 1", "same field", "metadata.name", "must have a", "must be Never")
           for text in broken.says)
]  # fmt: skip


@pytest.mark.parametrize("broken", CEL, ids=lambda broken: broken.title)
def test_what_cel_refuses_the_operator_refuses_as_well(broken: Broken) -> None:
    assert found_by_code(broken.manifest()) != ""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "required field `spec`"),
        ({"spec": []}, "Expected `object`, got `array` - at `$.spec`"),
        ({"spec": {}}, "required field `containers`"),
        ({"spec": {"containers": ["mxnet"]}}, "got `str` - at `$.spec.containers[0]`"),
        (template(env={"A": "b"}), "got `object` - at `$.spec.containers[0].env`"),
        (template(env=["A=b"]), "got `str` - at `$.spec.containers[0].env[0]`"),
        (template(resources={"limits": []}), "at `$.spec.containers[0].resources.limits`"),
        (template() | {"metadata": {"labels": []}}, "at `$.metadata.labels`"),
        ({"spec": {"containers": []}}, "containers: there is no container named 'mxnet'"),
    ],
)
def test_a_template_that_was_stored_before_there_was_a_schema(
    given: dict[str, Any], says: str
) -> None:
    text = found_by_code(local(replicaSpecs=[{"template": given}]))

    assert text.startswith("spec.replicaSpecs[0].template")
    assert says in text


# -- objects that mxnet-operator has stored -------------------------------------------------------


def test_a_spec_that_mxnet_operator_has_stored() -> None:
    """With its defaults, what Go writes of a template, and variables by its defect."""
    stored = template(env=[{"name": "DMLC_ROLE", "value": "worker"}], resources={})
    stored["metadata"] = {"creationTimestamp": None}
    spec = {
        "RuntimeId": "1kkf",
        "jobMode": "dist",
        "replicaSpecs": [
            {"replicas": 1, "template": stored, "PsRootPort": 9091, "mxReplicaType": kind}
            for kind in api.TYPES
        ],
    }
    job = distributed() | {"spec": spec}

    assert found_by_code(job) == ""


# -- what is stored -------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Cluster]:
    """A cluster with an operator."""
    async with Cluster(controllers=False) as started:
        await started.start_operator()
        yield started


@pytest.mark.parametrize("manifest", [distributed(), distributed("older", group="mlkube.io")])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_runtime_id_is_stored_and_used(served: Cluster, manifest: dict[str, Any]) -> None:
    name = manifest["metadata"]["name"]
    del manifest["spec"]["replicaSpecs"][0]["PsRootPort"]
    await served.create(manifest)
    job = await served.until_phase(name, "Creating")

    assert job["spec"]["RuntimeId"] == api.generated_id(job["metadata"]["uid"])
    assert job["spec"]["replicaSpecs"] == manifest["spec"]["replicaSpecs"]
    assert job["status"]["psRootPort"] == 9091

    async def names() -> bool:
        found = {each["metadata"]["name"] for each in await served.all(JOBS)}
        roles = ("scheduler", 0), ("server", 0), ("worker", 0), ("worker", 1)
        return {f"{name}-{role}-{job['spec']['RuntimeId']}-{number}" for role, number in roles} <= (
            found
        )

    await served.until(names)


@pytest.mark.parametrize("resource", [MX_JOBS, OLDER_MX_JOBS], ids=["current", "older"])
@pytest.mark.asyncio(loop_scope="module")
async def test_the_other_spellings_are_used_as_well_and_stay(
    served: Cluster, resource: Any
) -> None:
    name = f"spelt-{resource.group.count('.')}"
    manifest = distributed(name, group=resource.group, runtimeId="mine")
    manifest["spec"]["replicaSpecs"][0] = replica("SCHEDULER", psRootPort=1234)
    await served.create(manifest)
    job = await served.until_phase(name, "Creating")

    assert job["spec"]["replicaSpecs"] == manifest["spec"]["replicaSpecs"]
    assert "RuntimeId" not in job["spec"]
    assert (job["status"]["runtimeId"], job["status"]["psRootPort"]) == ("mine", 1234)
