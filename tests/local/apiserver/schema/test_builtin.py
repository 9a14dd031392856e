"""Schemas of the built-in kinds: unknown fields, types, fields Go omits, OpenAPI."""

import json
from typing import Any

import pytest

from traincrew.local.apiserver import schema
from traincrew.local.apiserver.kinds.builtin import builtin_resources
from traincrew.local.quantity import canonical


def pod(**spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container]} | spec,
    }


POD = schema.load_builtin("", "v1", "Pod")


def test_every_served_kind_has_a_schema() -> None:
    for resource in builtin_resources():
        assert resource.schema.node.fields["metadata"].type == "object", resource.kind
    with pytest.raises(KeyError, match="no schema of kind Nothing in core/v1"):
        schema.load_builtin("", "v1", "Nothing")


@pytest.mark.parametrize(
    ("change", "unknown"),
    [
        ({"imag": 1}, ["spec.imag"]),
        ({"containers": [{"name": "a", "imag": "x"}]}, ["spec.containers[0].imag"]),
        (
            {"volumes": [{"name": "a", "emptyDir": {"size": 1, "medium": "Memory"}}]},
            ["spec.volumes[0].emptyDir.size"],
        ),
        ({"nodeSelector": {"anything": "goes"}}, []),
        ({"overhead": {"cpu": "1"}}, []),
    ],
)
def test_unknown_fields_are_dropped_and_reported(
    change: dict[str, Any], unknown: list[str]
) -> None:
    obj = pod(**change)
    assert POD.prune(obj) == unknown
    assert POD.prune(obj) == []


def test_unknown_fields_of_metadata_and_the_root_are_reported() -> None:
    obj = pod() | {"data": {}}
    obj["metadata"]["label"] = {"a": "b"}
    assert POD.prune(obj) == ["metadata.label", "data"]


def test_fields_go_omits_when_empty_are_omitted() -> None:
    obj = pod(
        hostNetwork=False,
        volumes=[],
        nodeSelector={},
        hostname="",
        securityContext={},
        terminationGracePeriodSeconds=0,
        automountServiceAccountToken=False,
    )
    obj["metadata"] |= {"labels": {}, "creationTimestamp": None}
    obj["spec"]["containers"][0] |= {"env": [], "stdin": False, "resources": {}}
    POD.prune(obj)
    assert obj["metadata"] == {"name": "p"}
    assert obj["spec"] == {
        "containers": [{"name": "main", "image": "busybox", "resources": {}}],
        # Pointers and structs are significant even when empty.
        "securityContext": {},
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
    }


def test_null_means_absent_and_in_lists_and_maps_empty() -> None:
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "annotations": None},
        "data": {"a": None, "b": "x"},
    }
    schema.load_builtin("", "v1", "ConfigMap").prune(config)
    assert config == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"a": "", "b": "x"},
    }
    obj = pod(containers=[None, {"name": "a", "args": ["x", None], "env": None}])
    POD.prune(obj)
    assert obj["spec"]["containers"] == [{}, {"name": "a", "args": ["x", ""]}]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            {"hostname": 1},
            "spec.hostname",
            'Invalid value: "integer": spec.hostname in body must be of type string: "integer"',
        ),
        (
            {"containers": "a"},
            "spec.containers",
            'Invalid value: "string": spec.containers in body must be of type array: "string"',
        ),
        (
            {"hostNetwork": "true"},
            "spec.hostNetwork",
            'Invalid value: "string": spec.hostNetwork in body must be of type boolean: "string"',
        ),
        (
            {"priority": 1.5},
            "spec.priority",
            'Invalid value: "number": spec.priority in body must be of type integer: "number"',
        ),
        (
            {"priority": 2**31},
            "spec.priority",
            'Invalid value: 2147483648: spec.priority in body must be of type int32: "integer"',
        ),
        (
            {"overhead": {"cpu": "lots"}},
            "spec.overhead.cpu",
            (
                'Invalid value: "lots": quantities must match the regular expression '
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ),
        ),
    ],
)
def test_wrong_types_are_reported(spec: dict[str, Any], field: str, message: str) -> None:
    (cause,) = POD.validate(pod(**spec))
    assert (cause.reason, cause.field, cause.message) == ("FieldValueTypeInvalid", field, message)


def test_required_strings_are_required_except_in_a_status() -> None:
    obj = pod(containers=[{"image": "x", "env": [{"value": "1"}]}])
    obj["status"] = {"conditions": [{"status": "True"}]}
    assert [(cause.field, cause.message) for cause in POD.validate(obj)] == [
        ("spec.containers[0].name", "Required value"),
        ("spec.containers[0].env[0].name", "Required value"),
    ]


def test_quantities_accept_numbers_and_strings() -> None:
    limits = {"cpu": 0.5, "memory": "1.5Gi", "nvidia.com/gpu": 2, "a.b/c": "1e3", "d.e/f": "100m"}
    obj = pod(containers=[{"name": "a", "resources": {"limits": limits}}])
    assert POD.validate(obj) == []


def references(document: Any) -> set[str]:
    if isinstance(document, list):
        return set().union(*map(references, document)) if document else set()
    if not isinstance(document, dict):
        return set()
    found = set().union(*map(references, document.values())) if document else set()
    return found | {document["$ref"]} if "$ref" in document else found


def test_open_api_is_complete_and_described() -> None:
    definitions = POD.open_api()
    known = {f"#/components/schemas/{name}" for name in definitions}
    assert references(definitions) <= known
    root = definitions["io.k8s.api.core.v1.Pod"]
    assert root["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "Pod", "version": "v1"}
    ]
    assert root["properties"]["spec"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}
    ]
    assert "collection of containers" in root["description"]
    containers = definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert "x-omit-empty" not in json.dumps(definitions)


def test_recursive_schemas_work() -> None:
    definition = schema.load_builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    inner = {"type": "object", "properties": {"a": {"type": "string", "frmat": "date"}}}
    obj = {
        "metadata": {"name": "x"},
        "spec": {
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": inner}}],
        },
    }
    path = "spec.versions[0].schema.openAPIV3Schema.properties.a.frmat"
    assert definition.prune(obj) == [path]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1024Mi", "1Gi"),
        ("12Mi", "12Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("1.3Ki", "1331200m"),
        ("512Ki", "512Ki"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        (0.5, "500m"),
        (2, "2"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("0", "0"),
        ("0Mi", "0"),
        ("-0.1", "-100m"),
        ("0.1n", "1n"),
        ("1.500", "1.500"),  # sic: fraction digits in groups of three are kept
        ("010", "010"),
        ("9223372036854775807Ki", "9223372036854775807"),
    ],
)
def test_quantities_read_back_as_go_writes_them(written: str | float, read: str) -> None:
    assert canonical(written) == read


def test_an_object_reads_back_as_go_writes_it() -> None:
    lease = schema.load_builtin("coordination.k8s.io", "v1", "Lease")
    obj: dict[str, Any] = {"spec": {"renewTime": "2027-01-15T10:00:00.5+02:00"}}
    lease.complete(obj)
    assert obj == {"metadata": {}, "spec": {"renewTime": "2027-01-15T08:00:00.500000Z"}}
    deployment = schema.load_builtin("apps", "v1", "Deployment")
    obj = {"status": {"conditions": [{"type": "A", "lastUpdateTime": "2027-01-15T10:00:00.9Z"}]}}
    deployment.complete(obj)
    assert obj["status"] == {
        "conditions": [
            {
                "type": "A",
                "status": "",
                "lastUpdateTime": "2027-01-15T10:00:00Z",
                "lastTransitionTime": None,
            }
        ]
    }
    assert obj["spec"] == {
        "selector": None,
        "strategy": {},
        "template": {"metadata": {}, "spec": {"containers": None}},
    }
    claim = schema.load_builtin("", "v1", "PersistentVolumeClaim")
    obj = {"spec": {"resources": {"requests": {"storage": "1024Mi"}}}}
    claim.complete(obj)
    assert obj["spec"]["resources"]["requests"] == {"storage": "1Gi"}


def _errors(loaded: schema.ObjectSchema, obj: dict[str, Any]) -> list[str]:
    """Return the errors of a document, and check that pruning has seen whether there are any."""
    pruned = loaded.prune_and_check(obj, [])
    found = [cause.field for cause in loaded.validate(obj)]
    assert not (found and pruned.valid)
    return found


@pytest.mark.parametrize(
    ("change", "errors"),
    [
        ({"hostNetwork": "yes"}, ["spec.hostNetwork"]),
        ({"terminationGracePeriodSeconds": 2**70}, ["spec.terminationGracePeriodSeconds"]),
        ({"nodeName": 5}, ["spec.nodeName"]),
        ({"tolerations": {"key": "a"}}, ["spec.tolerations"]),
        ({"tolerations": ["a"]}, ["spec.tolerations[0]"]),
        ({"overhead": {"cpu": "a lot"}}, ["spec.overhead.cpu"]),
        ({"nodeSelector": {"a": {"b": "c"}}}, ["spec.nodeSelector.a"]),
        ({"nodeSelector": "a=b"}, ["spec.nodeSelector"]),
        ({"containers": [{"image": "a"}]}, ["spec.containers[0].name"]),
        ({"containers": [{"name": "", "image": "a"}]}, ["spec.containers[0].name"]),
        ({"containers": [{"name": "a", "command": [1]}]}, ["spec.containers[0].command[0]"]),
        # Go decodes null to an object without the name that is required.
        ({"containers": [None]}, ["spec.containers[0].name"]),
    ],
)
def test_pruning_sees_that_a_document_is_invalid(change: dict[str, Any], errors: list[str]) -> None:
    assert _errors(POD, pod(**change)) == errors


def test_pruning_sees_that_a_document_is_valid() -> None:
    obj = pod(
        nodeName="",
        hostNetwork=None,
        unknown={"a": 1},
        activeDeadlineSeconds=5,
        overhead={"cpu": "1"},
        volumes=[{"name": "a", "emptyDir": {}}],
        nodeSelector={"a": "", "b": None},
    )
    obj["metadata"]["creationTimestamp"] = None  # as Go clients send it
    del obj["spec"]["nodeSelector"]["b"]
    assert POD.prune_and_check(obj, []) == (["spec.unknown"], True)
    assert _errors(POD, obj) == []
