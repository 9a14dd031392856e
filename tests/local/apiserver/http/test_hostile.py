"""Documents with random values anywhere: rejected with a reason, never an internal error."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from local.apiserver.support import (
    APPLY,
    DEFINITIONS,
    MAPS,
    MERGE,
    PODS,
    STRATEGIC,
    WIDGETS,
    Api,
    config_map,
    definition,
    pod,
    widget,
)

VALUES: list[Any] = [
    *(None, 0, -1, 1.5, True, "", "x", "x" * 300, 10**30, "\u0000", "é/..", "1Gi"),
    *([], {}, [None], [{}], [[]], ["x"], [1], {"a": None}, {"": {}}, {"x": {"y": []}}),
    *(["a", "a"], [1, 1], [None, None], [{}, {}], [[], []], [{"uid": 1}, {"uid": 1}]),
]
LABELS = {"app": "a"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": LABELS},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox:1",
                "env": [
                    {"name": "A", "value": "b"},
                    {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "ports": [{"containerPort": 80, "name": "web"}],
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "livenessProbe": {"exec": {"command": ["x"]}},
            }
        ],
        "initContainers": [{"name": "first", "image": "busybox:1"}],
        "volumes": [
            {"name": "v", "configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}}
        ],
        "tolerations": [{"key": "a", "operator": "Exists"}],
    },
}
JOB = {
    "template": {
        "metadata": TEMPLATE["metadata"],
        "spec": TEMPLATE["spec"] | {"restartPolicy": "Never"},
    },
    "completions": 2,
    "podFailurePolicy": {
        "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]
    },
}
SET = {
    "replicas": 1,
    "serviceName": "s",
    "selector": {"matchLabels": LABELS},
    "template": TEMPLATE,
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
}
BASES: dict[str, dict[str, Any]] = {
    MAPS: config_map("base"),
    PODS: pod("base", **TEMPLATE["spec"]),
    "/api/v1/namespaces/default/services": {
        "spec": {"ports": [{"port": 80, "targetPort": "web"}], "clusterIPs": ["None"]}
    },
    "/api/v1/namespaces/default/secrets": {"data": {"a": "eA=="}, "stringData": {"b": "y"}},
    "/apis/apps/v1/namespaces/default/statefulsets": {"spec": SET},
    "/apis/batch/v1/namespaces/default/jobs": {"spec": JOB},
    DEFINITIONS: {"spec": definition("bases")["spec"]},
    WIDGETS: widget("base") | {"status": {"phase": "x"}},
}


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a document."""
    if isinstance(document, dict | list):
        keys = document if isinstance(document, dict) else range(len(document))
        for key in keys:
            yield (*path, key)
            yield from places(document[key], (*path, key))


def spoiled(chance: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with some values replaced, removed or added."""
    result: dict[str, Any] = json.loads(json.dumps(document))
    for _ in range(chance.choice([1, 1, 2, 4])):
        where = list(places(result))
        if not where:
            return result
        *parents, last = chance.choice(where)
        holder: Any = result
        for key in parents:
            holder = holder[key]
        value = json.loads(json.dumps(chance.choice(VALUES)))
        action = chance.random()
        if action < 0.7:
            holder[last] = value
        elif action < 0.85:
            del holder[last]
        elif isinstance(holder, dict):
            holder[chance.choice(["unknown", "metadata", "spec", "name", "items"])] = value
        else:
            holder.append(value)
    return result


@pytest.mark.parametrize("path", BASES, ids=lambda path: path.rsplit("/", 1)[1])
async def test_invalid_values_anywhere_are_rejected(api: Api, path: str) -> None:
    chance = random.Random(path)
    (await api.post(DEFINITIONS, definition())).ok(201)
    name = "bases.example.com" if path == DEFINITIONS else "base"
    metadata = {
        "name": name,
        "labels": {"a": "b"},
        "annotations": {"x": "y"},
        "finalizers": ["x/y"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
    }
    base = BASES[path] | {"metadata": metadata}
    stored = (await api.post(path, base)).ok(201)
    identity = {field: stored[field] for field in ("apiVersion", "kind")}
    codes: Counter[int] = Counter()
    for _ in range(60):
        document = spoiled(chance, base)
        applied = {"fieldManager": "me", "force": "true"}
        for answer in (
            await api.post(path, document | {"metadata": {"name": "other"}}, dryRun="All"),
            await api.post(path, document, dryRun="All"),
            await api.put(f"{path}/{name}", document, dryRun="All"),
            await api.patch(f"{path}/{name}", document, MERGE, dryRun="All"),
            await api.patch(f"{path}/{name}", document, STRATEGIC, dryRun="All"),
            await api.patch(f"{path}/{name}", identity | document, APPLY, dryRun="All", **applied),
        ):
            # Some of upstream's rejections are a 500, too, but have no reason.
            own_fault = answer.document.get("reason") == "InternalError"
            message = answer.document.get("message", "")
            assert not own_fault, (message, document)
            assert answer.code < 300 or message, answer.body
            codes[answer.code // 100] += 1
    assert codes[2] > 10  # not everything was refused for a trivial reason
    assert codes[4] > 60


@pytest.mark.parametrize("place", ["items", "additionalProperties"])
@pytest.mark.parametrize(
    ("inner", "fault"),
    [
        (
            {"x-kubernetes-validations": [[{"rule": "true"}]]},
            "JSONSchemaProps.x-kubernetes-validations of type v1.ValidationRule",
        ),
        ({"pattern": 1}, "json: cannot unmarshal number into Go struct field"),
        ({"properties": {"a": {"additionalProperties": "x"}}}, "boolean or JSON schema expected"),
    ],
)
async def test_types_below_items_of_a_definition(
    api: Api, place: str, inner: dict[str, Any], fault: str
) -> None:
    document = definition()
    outer = {"type": "array" if place == "items" else "object", place: {"type": "object"} | inner}
    schema = {"type": "object", "properties": {"a": outer}}
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    assert fault in (await api.post(DEFINITIONS, document)).refused(400)["message"]
    path = f"{DEFINITIONS}/{document['metadata']['name']}?fieldManager=me"
    assert fault in (await api.patch(path, document, APPLY)).refused(500)["message"]


async def test_an_applied_configuration_with_null_as_metadata(api: Api) -> None:
    (await api.post(MAPS, config_map("a", {"x": "1"}))).ok(201)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None, "data": {"y": "2"}}
    found = await api.patch(f"{MAPS}/a?fieldManager=me", config, APPLY)
    assert found.ok()["data"] == {"x": "1", "y": "2"}


@pytest.mark.parametrize("subresource", ["binding", "eviction"])
@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": ["a"]}},
        {"metadata": 1},
        {"target": {"kind": {"a": "Node"}, "name": "n"}, "deleteOptions": []},
        {"target": {"kind": ["Node"], "name": "n"}, "deleteOptions": {"dryRun": "All"}},
    ],
)
async def test_bodies_of_wrong_types_for_pods(
    api: Api, subresource: str, change: dict[str, Any]
) -> None:
    (await api.post(PODS, pod("a"))).ok(201)
    body = {"target": {"name": "n"}} | change
    message = (await api.post(f"{PODS}/a/{subresource}", body)).refused(400)["message"]
    assert "json: cannot unmarshal" in message


async def test_null_as_the_schema_of_a_field(api: Api) -> None:
    document = definition()
    schema = {"type": "object", "properties": {"a": None}}
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    message = (await api.post(DEFINITIONS, document)).refused(422)["message"]
    assert "properties[a].type: Required value" in message


async def test_a_wrong_type_after_a_thousand_other_faults(api: Api) -> None:
    owners: list[Any] = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{i}"} for i in range(1_500)]
    document = config_map("a", ownerReferences=[*owners, ["p"]])
    message = (await api.post(MAPS, document)).refused(400)["message"]
    assert "json: cannot unmarshal array into Go struct field" in message


REPEATED: list[Any] = [["a", "a"], [1, 1], [[], []], [{"uid": 1}, {"uid": 1}], [None, None]]


@pytest.mark.parametrize("path", [MAPS, WIDGETS])
async def test_owners_are_checked_before_they_are_compared(api: Api, path: str) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    base = config_map("a") if path == MAPS else widget("a")
    (await api.post(path, base)).ok(201)
    for owners in REPEATED:
        document = base | {"metadata": {"name": "a", "ownerReferences": owners}}
        other = base | {"metadata": {"name": "b", "ownerReferences": owners}}
        refused = 422 if owners[0] is None else 400
        assert (await api.post(path, other)).code == refused, owners
        document["metadata"]["resourceVersion"] = (await api.get(f"{path}/a")).document["metadata"][
            "resourceVersion"
        ]
        assert (await api.put(f"{path}/a", document)).code == refused, owners
        assert (await api.patch(f"{path}/a", document, MERGE)).code == 422, owners


async def test_metadata_of_a_custom_resource_is_decoded_as_that_of_others(api: Api) -> None:
    """In the words of upstream, which decodes it before anything else."""
    (await api.post(DEFINITIONS, definition())).ok(201)
    fields = {
        "ownerReferences": (
            ["a"],
            "string",
            "ObjectMeta.ownerReferences",
            "v1.OwnerReference",
        ),
        "labels": ({"a": 1}, "number", "ObjectMeta.labels", "string"),
        "finalizers": ([1], "number", "ObjectMeta.finalizers", "string"),
        "managedFields": ("x", "string", "ObjectMeta.managedFields", "[]v1.ManagedFieldsEntry"),
    }
    for field, (value, given, place, wanted) in fields.items():
        document = widget("a")
        document["metadata"][field] = value
        (await api.post(WIDGETS, document)).refused(
            400,
            "BadRequest",
            'Widget in version "v1" cannot be handled as a Widget: json: cannot unmarshal '
            f"{given} into Go struct field {place} of type {wanted}",
        )
