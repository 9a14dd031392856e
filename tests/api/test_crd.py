"""The CustomResourceDefinitions: size, structure, and what users see of ChainerJob's."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from api.chainerjob.broken import FAILED, REFUSED
from plan.chainerjob.world import distributed, example, plain
from traincrew.api.crd import Kind, definition, schema
from traincrew.api.kinds import KINDS
from traincrew.api.kinds.chainerjob import types as api
from traincrew.api.kinds.chainerjob.definition import DEFINITION
from traincrew.api.kinds.chainerjob.rules import problems
from traincrew.api.meta import ObjectMeta
from traincrew.api.podtemplate import completed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.broken import Broken

SCHEMA = schema(DEFINITION)
SPEC = SCHEMA["properties"]["spec"]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema node with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    if isinstance(node.get("additionalProperties"), dict):
        yield from nodes(node["additionalProperties"], f"{path}.*")
    if isinstance(node.get("items"), dict):
        yield from nodes(node["items"], f"{path}[]")


@every_kind
def test_it_fits_the_annotation_of_a_plain_apply(kind: Kind) -> None:
    assert len(json.dumps(definition(kind))) < 256 * 1024


def test_names_are_those_of_the_chainer_operator() -> None:
    document = definition(DEFINITION)

    assert document["metadata"]["name"] == "chainerjobs.kubeflow.org"
    assert document["spec"]["names"]["shortNames"] == ["chj", "chjs", "chjob", "chjobs"]
    assert document["spec"]["names"]["categories"] == ["all"]
    assert document["spec"]["scope"] == "Namespaced"
    (version,) = document["spec"]["versions"]
    assert version["name"] == "v1alpha1"
    assert version["subresources"] == {"status": {}}
    columns = [column["name"] for column in version["additionalPrinterColumns"]]
    assert columns == ["Phase", "Workers", "Restarts", "Progress", "Age", "Reason", "Message"]


@every_kind
def test_it_is_structural(kind: Kind) -> None:
    for path, node in nodes(schema(kind)):
        for word in ("$ref", "title", "oneOf", "x-pod-template", "definitions"):
            assert word not in node, path
        if "anyOf" in node:
            assert node.get("x-kubernetes-int-or-string"), path
        any_type = "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"
        if not any(map(node.get, any_type)):
            assert "type" in node, path
        if node.get("x-kubernetes-list-type") == "map":
            items = node["items"]
            for key in node["x-kubernetes-list-map-keys"]:
                required = key in items.get("required", ())
                assert required or "default" in items["properties"][key], f"{path} {key}"


UPSTREAM = re.compile(r"\.template\.|\.templates\[\]\.|\.env\[\]|\.resourcesPerNode\.")
"""Paths of fields of pods, Jobs and claims."""


@every_kind
def test_our_own_fields_are_described_and_upstreams_are_not(kind: Kind) -> None:
    for path, node in nodes(schema(kind)["properties"]["spec"]):
        assert ("description" in node) == (UPSTREAM.search(path) is None), path


def test_static_defaults_are_in_the_schema() -> None:
    defaults = {path: node["default"] for path, node in nodes(SPEC) if "default" in node}
    own = {path: value for path, value in defaults.items() if "template.spec." not in path}

    assert own == {
        ".runPolicy.cleanPodPolicy": "Running",
        ".runPolicy.schedulingPolicy.scheduleTimeoutSeconds": 1800,
        ".runPolicy.suspend": False,
        ".workerSets.*.replicas": 1,
    }
    assert defaults[".master.template.spec.restartPolicy"] == "Never"
    assert defaults[".workerSets.*.template.spec.restartPolicy"] == "Always"


def test_every_rule_is_in_the_schema() -> None:
    rules = [
        rule["rule"]
        for _, node in nodes(SCHEMA)
        for rule in node.get("x-kubernetes-validations", ())
    ]

    assert len(rules) == 16
    assert len(set(rules)) == 14


def test_rules_refer_only_to_bounded_fields() -> None:
    """So that the API server can estimate what they cost."""
    for side in (SPEC["properties"]["master"], SPEC["properties"]["workerSets"]):
        template = side.get("additionalProperties", side)["properties"]["template"]
        containers = template["properties"]["spec"]["properties"]["containers"]
        assert containers["maxItems"]
        assert containers["items"]["properties"]["name"]["maxLength"]
    assert SPEC["properties"]["workerSets"]["maxProperties"]


# -- the same rules in the operator -------------------------------------------------------------


def found_by_code(manifest: dict[str, Any]) -> str:
    """What the operator says of a manifest that got past the API."""
    metadata = msgspec.convert(manifest["metadata"], ObjectMeta)
    try:
        spec = api.decode(manifest["spec"])
    except msgspec.ValidationError as error:
        return str(error)
    return "; ".join(str(problem) for problem in problems(metadata, spec))


@pytest.mark.parametrize("manifest", [plain(), distributed(), example("everything")])
def test_valid_manifests_have_no_problems(manifest: dict[str, Any]) -> None:
    if manifest["metadata"]["name"] == "digits-all":
        manifest["spec"].pop("runPolicy")

    assert found_by_code(manifest) == ""


CEL_WORDS = (
    "lower case letters",
    "'master'",
    "only Always",
    "Never or",
    "be named",
    "not both",
    "at most 56",
    "at most 41",
    "replace '.'",
)
CEL = [
    broken for broken in REFUSED if any(word in text for text in broken.says for word in CEL_WORDS)
]


@pytest.mark.parametrize("broken", CEL, ids=lambda broken: broken.title)
def test_what_cel_refuses_the_operator_refuses_as_well(broken: Broken) -> None:
    assert found_by_code(broken.manifest()) != ""


@pytest.mark.parametrize(
    "broken",
    [broken for broken in FAILED if not broken.says[0].startswith(("Job", "StatefulSet"))],
    ids=lambda broken: broken.title,
)
def test_rules_that_only_code_can_check(broken: Broken) -> None:
    said = found_by_code(broken.manifest())

    for text in broken.says:
        assert text in said


# -- defaults that depend on other fields -------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "slots"),
    [
        (None, 1),
        ({}, 1),
        ({"limits": {"cpu": 2}}, 1),
        ({"limits": {"nvidia.com/gpu": 4}}, 4),
        ({"limits": {"nvidia.com/gpu": "8"}}, 8),
        ({"limits": {"nvidia.com/gpu": "0"}}, 1),
        ({"limits": {"nvidia.com/gpu": "1500m"}}, 1),
    ],
)
def test_slots_follow_the_gpus(resources: Any, slots: int) -> None:
    manifest = distributed()
    worker = manifest["spec"]["workerSets"]["ws0"]
    del worker["mpiConfig"]
    if resources is not None:
        worker["template"]["spec"]["containers"][0]["resources"] = resources

    assert api.slots(api.decode(manifest["spec"]).worker_sets["ws0"]) == slots


def test_slots_of_a_sidecar_do_not_count() -> None:
    manifest = distributed()
    worker = manifest["spec"]["workerSets"]["ws0"]
    del worker["mpiConfig"]
    gpus = {"limits": {"nvidia.com/gpu": 4}}
    worker["template"]["spec"]["containers"].append({"name": "side", "resources": gpus})

    assert api.slots(api.decode(manifest["spec"]).worker_sets["ws0"]) == 1


def test_explicit_slots_take_precedence() -> None:
    assert api.slots(api.decode(example("everything")["spec"]).master) == 2


def test_a_single_unnamed_container_is_named() -> None:
    template = {"spec": {"containers": [{"image": "x"}], "nodeName": "n"}}

    named = completed(template, "chainer")

    assert named["spec"]["containers"] == [{"image": "x", "name": "chainer"}]
    assert named["spec"]["nodeName"] == "n"
    assert "name" not in template["spec"]["containers"][0]
    two = {"spec": {"containers": [{"image": "x"}, {"image": "y"}]}}
    assert completed(two, "chainer") == two
