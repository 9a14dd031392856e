"""ElasticJob: its CustomResourceDefinition, its defaults, and what is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio
import yaml

from api.test_crd import nodes
from harness import ELASTIC_JOBS, Cluster
from traincrew.api.crd import definition, schema
from traincrew.api.kinds.elasticjob import types as api
from traincrew.api.kinds.elasticjob.definition import DEFINITION
from traincrew.api.kinds.elasticjob.rules import problems
from traincrew.api.meta import ObjectMeta
from traincrew.engine.errors import ApiError, InvalidError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SCHEMA = schema(DEFINITION)
SPEC = SCHEMA["properties"]["spec"]
EXAMPLES = Path(__file__).parents[2] / "plan" / "elasticjob" / "examples"
CONTAINERS = "spec/replicaSpecs/Worker/template/spec/containers"


def example(name: str) -> dict[str, Any]:
    """A manifest of the examples."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    return document


def changed(path: str, value: Any, name: str = "etcd") -> dict[str, Any]:
    """An example with one field changed; None removes it."""
    document = copy.deepcopy(example(name))
    *parents, last = path.split("/")
    node: Any = document
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    key = int(last) if isinstance(node, list) else last
    if value is None:
        del node[key]
    else:
        node[key] = value
    return document


# -- the definition -----------------------------------------------------------------------------


def test_names_are_those_of_torchelastic() -> None:
    document = definition(DEFINITION)

    assert document["metadata"]["name"] == "elasticjobs.elastic.pytorch.org"
    assert document["spec"]["scope"] == "Namespaced"
    assert "shortNames" not in document["spec"]["names"]
    (version,) = document["spec"]["versions"]
    assert version["name"] == "v1alpha1"
    assert version["subresources"]["status"] == {}
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicaSpecs.Worker.replicas",
        "statusReplicasPath": ".status.replicaStatuses.Worker.active",
        "labelSelectorPath": ".status.replicaStatuses.Worker.selector",
    }
    columns = version["additionalPrinterColumns"]
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["Phase", "Min", "Max", "Desired", "Ready", "Age"]


def test_static_defaults_are_those_of_torchelastic() -> None:
    defaults = {path: node["default"] for path, node in nodes(SPEC) if "default" in node}
    own = {path: value for path, value in defaults.items() if "template.spec." not in path}

    assert own == {
        ".cleanPodPolicy": "None",
        ".suspend": False,
        ".fitAvailable.afterSeconds": 60,
        ".fitAvailable.retrySeconds": 300,
        ".replicaSpecs.*.replicas": 1,
    }
    pod = ".replicaSpecs.*.template.spec"
    assert f"{pod}.restartPolicy" not in defaults  # what the user wrote there has to be told apart


# -- defaults that depend on other fields -------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "limits"),
    [
        ({}, (2, 2)),
        ({"minReplicas": 1}, (1, 2)),
        ({"maxReplicas": 5}, (2, 5)),
        ({"minReplicas": 1, "maxReplicas": 3}, (1, 3)),
    ],
)
def test_limits_follow_the_replicas(spec: dict[str, Any], limits: tuple[int, int]) -> None:
    job = api.decode({**example("hosted")["spec"], **spec})
    planned = api.with_limits(job, 0, 0)

    assert (job.smallest, job.largest) == limits
    assert (planned.min_replicas, planned.max_replicas) == limits
    assert api.with_limits(planned, 7, 9) == planned
    later = api.with_limits(job, 7, 9)
    assert later.min_replicas == spec.get("minReplicas", 7)
    assert later.max_replicas == spec.get("maxReplicas", 9)


@pytest.mark.parametrize(
    ("spec", "backend"),
    [
        ({}, "c10d"),
        ({"rdzvEndpoint": "e:2379"}, "etcd"),
        ({"rdzvEndpoint": "e:2379", "rdzvBackend": "etcd-v2"}, "etcd-v2"),
        ({"rdzvEndpoint": "e:29400", "rdzvBackend": "c10d"}, "c10d"),
    ],
)
def test_the_rendezvous_backend(spec: dict[str, Any], backend: str) -> None:
    job = api.decode({**example("hosted")["spec"], **spec})

    assert job.backend == backend
    assert job.hosted == ("rdzvEndpoint" not in spec)


# -- what is refused ----------------------------------------------------------------------------

WORKER = "spec/replicaSpecs/Worker"
REFUSED = [
    (changed("spec/replicaSpecs", None), "spec.replicaSpecs: Required"),
    (changed("spec/replicaSpecs", {}), "the key 'Worker' is required"),
    (changed(f"{WORKER}/template", None), "spec.replicaSpecs.Worker.template: Required"),
    (changed(f"{WORKER}/replicas", -1), "should be greater than or equal to 0"),
    (changed(f"{WORKER}/replicas", 5001), "should be less than or equal to 5000"),
    (changed(f"{WORKER}/replicas", "2"), "spec.replicaSpecs.Worker.replicas"),
    (changed(f"{WORKER}/replicas", 4), "replicas must be at most maxReplicas"),
    (changed("spec/minReplicas", 3), "replicas must be at least minReplicas"),
    (changed("spec/minReplicas", 4), "minReplicas must be at most maxReplicas"),
    (changed("spec/minReplicas", 0), "spec.minReplicas"),
    (changed("spec/rdzvEndpoint", ""), "spec.rdzvEndpoint"),
    (changed("spec/rdzvBackend", "etcd", "hosted"), "rdzvBackend needs rdzvEndpoint"),
    (changed("spec/rdzvBackend", "a b"), "spec.rdzvBackend"),
    (changed(f"{WORKER}/restartPolicy", "Sometimes"), "Worker.restartPolicy: Unsupported value"),
    (changed("spec/cleanPodPolicy", "Some"), "spec.cleanPodPolicy: Unsupported value"),
    (changed("spec/backoffLimit", -1), "spec.backoffLimit"),
    (changed("spec/activeDeadlineSeconds", 0), "spec.activeDeadlineSeconds"),
    (changed("spec/ttlSecondsAfterFinished", -1), "spec.ttlSecondsAfterFinished"),
    (changed("spec/fitAvailable", {}, "hosted"), "fitAvailable needs minReplicas below"),
    (changed("spec/fitAvailable/afterSeconds", 0), "spec.fitAvailable.afterSeconds"),
    (changed("spec/fitAvailable/retrySeconds", 0), "spec.fitAvailable.retrySeconds"),
    (changed("spec/fitAvailable/after", 1), 'unknown field "spec.fitAvailable.after"'),
    (changed("spec/fitAvailable", True), "spec.fitAvailable"),
    (changed("spec/suspend", "yes"), "spec.suspend"),
    (changed("spec/runPolicy", {"suspend": True}), 'unknown field "spec.runPolicy"'),
    (changed("spec/minReplica", 1), 'unknown field "spec.minReplica"'),
    (changed(f"{CONTAINERS}/0/imagee", "x"), 'containers[0].imagee"'),
    (changed("spec/replicaSpecs/a_b", example("etcd")["spec"]["replicaSpecs"]["Worker"]), "keys"),
    (changed("metadata/name", "a.b"), "metadata.name becomes part of host names"),
    (changed("metadata/name", "7days"), "must begin with a letter"),
    (changed("metadata/name", "x" * 52), "together must have at most 57 characters"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster that knows the kind."""
    async with Cluster(controllers=False) as started:
        yield started


async def create(cluster: Cluster, manifest: dict[str, Any]) -> dict[str, Any]:
    """Create as kubectl does: unknown fields are an error."""
    answer = await cluster.client.request(
        "POST",
        ELASTIC_JOBS.path("default"),
        params={"fieldValidation": "Strict"},
        body=json.dumps(manifest).encode(),
        content_type="application/json",
    )
    created: dict[str, Any] = msgspec.json.decode(answer)
    return created


@pytest.mark.parametrize(("manifest", "says"), REFUSED, ids=[says for _, says in REFUSED])
@pytest.mark.asyncio(loop_scope="module")
async def test_refused_at_create(cluster: Cluster, manifest: dict[str, Any], says: str) -> None:
    with pytest.raises(ApiError) as refused:
        await create(cluster, manifest)

    assert refused.value.code in {400, 422}
    assert says in refused.value.message


@pytest.mark.parametrize("name", ["etcd", "hosted", "everything"])
@pytest.mark.asyncio(loop_scope="module")
async def test_valid_manifests_are_stored_unchanged(cluster: Cluster, name: str) -> None:
    manifest = example(name)
    created = await create(cluster, manifest)
    await cluster.client.delete(ELASTIC_JOBS, manifest["metadata"]["name"], "default")

    template = created["spec"]["replicaSpecs"]["Worker"]["template"]
    assert template == manifest["spec"]["replicaSpecs"]["Worker"]["template"]
    assert created["spec"]["cleanPodPolicy"] == manifest["spec"].get("cleanPodPolicy", "None")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_job_with_fit_available_may_leave_out_the_limits(cluster: Cluster) -> None:
    manifest = changed("spec/maxReplicas", None)
    manifest["spec"]["fitAvailable"] = {}
    created = await create(cluster, manifest)
    try:
        assert created["spec"]["fitAvailable"] == {"afterSeconds": 60, "retrySeconds": 300}
        assert "maxReplicas" not in created["spec"]
    finally:
        await cluster.client.delete(ELASTIC_JOBS, "flowers", "default")


@pytest.mark.asyncio(loop_scope="module")
async def test_scale_is_bounded_by_the_limits(cluster: Cluster) -> None:
    await create(cluster, example("etcd"))

    async def scale(replicas: int) -> dict[str, Any]:
        patch = {"spec": {"replicas": replicas}}
        return await cluster.client.patch(
            ELASTIC_JOBS, "flowers", "default", patch=patch, subresource="scale"
        )

    try:
        assert (await scale(3))["spec"]["replicas"] == 3
        with pytest.raises(InvalidError, match="at most maxReplicas"):
            await scale(4)
        with pytest.raises(InvalidError, match="at least minReplicas"):
            await scale(0)
        job = await cluster.client.get(ELASTIC_JOBS, "flowers", "default")
        assert job["spec"]["replicaSpecs"]["Worker"]["replicas"] == 3
    finally:
        await cluster.client.delete(ELASTIC_JOBS, "flowers", "default")


# -- the same rules in the operator -------------------------------------------------------------


def found_by_code(manifest: dict[str, Any]) -> str:
    """What the operator says of a manifest that got past the API."""
    metadata = msgspec.convert(manifest["metadata"], ObjectMeta)
    try:
        spec = api.decode(manifest["spec"])
    except msgspec.ValidationError as error:
        return str(error)
    return "; ".join(str(problem) for problem in problems(metadata, spec))


@pytest.mark.parametrize("name", ["etcd", "hosted", "everything"])
def test_valid_manifests_have_no_problems(name: str) -> None:
    assert found_by_code(example(name)) == ""


@pytest.mark.parametrize(
    "manifest",
    [
        manifest
        for manifest, says in REFUSED
        if "unknown field" not in says and "imagee" not in says
    ],
)
def test_what_the_api_refuses_the_operator_refuses_as_well(manifest: dict[str, Any]) -> None:
    assert found_by_code(manifest) != ""


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        (changed("spec/replicaSpecs/worker", {"template": {}}), "2 keys are 'worker'"),
        (changed(CONTAINERS, []), f"{CONTAINERS.replace('/', '.')}: at least one"),
        (changed(CONTAINERS, [{"name": "a"}, {"name": "a"}]), "2 containers are named 'a'"),
    ],
)
def test_rules_that_only_code_can_check(manifest: dict[str, Any], says: str) -> None:
    assert says in found_by_code(manifest)
