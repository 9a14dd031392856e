"""Semantic rules for pods, with upstream's messages."""

from typing import Any

import pytest

from local.apiserver.strategies import default, strategy_of
from traincrew.local.apiserver import schema
from traincrew.local.apiserver.kinds.validation import validate
from traincrew.local.apiserver.values.codec import clone

POD = schema.load_builtin("", "v1", "Pod")


def pod(container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    first = {"name": "a", "image": "busybox"} | (container or {})
    obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [first]} | spec,
    }
    assert POD.prune(obj) == []
    default("", "Pod", obj)
    return obj


def faults(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    found = POD.validate(obj) or validate(strategy_of("", "Pod"), obj, old)
    return [(cause.field, cause.message) for cause in found]


C = "spec.containers[0]"


def test_unknown_resources() -> None:
    found = faults(pod({"resources": {"requests": {"gpu": 1, "requests.example.com/a": 1}}}))
    path = f"{C}.resources.requests"
    assert found == [
        (
            f"{path}[gpu]",
            'Invalid value: "gpu": must be a standard resource type or fully qualified',
        ),
        (f"{path}[gpu]", 'Invalid value: "gpu": must be a standard resource for containers'),
        (
            f"{path}[requests.example.com/a]",
            (
                'Invalid value: "requests.example.com/a": doesn\'t follow extended resource name'
                " standard"
            ),
        ),
        (
            f"{C}.resources.limits",
            "Required value: Limit must be set for non overcommitable resources",
        ),
    ]


# --- updates ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "change", "field", "text"),
    [
        ({}, {"hostname": "x"}, "spec", "Forbidden: pod updates may not change fields other than"),
        ({}, {"nodeSelector": {"a": "b"}}, "spec", '+ "NodeSelector": {\n+  "a": "b"'),
        (
            {},
            {"containers": []},
            "spec.containers",
            "Forbidden: pod updates may not add or remove containers",
        ),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": 6},
            "spec.activeDeadlineSeconds",
            "must be less than or equal to previous value",
        ),
        (
            {"activeDeadlineSeconds": 5},
            {"activeDeadlineSeconds": None},
            "spec.activeDeadlineSeconds",
            "must not update from a positive integer to nil value",
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            {"tolerations": []},
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ),
        (
            {"schedulingGates": [{"name": "a"}]},
            {"schedulingGates": [{"name": "b"}]},
            "spec.schedulingGates[0].name",
            "only deletion is allowed, but found new scheduling gate 'b'",
        ),
    ],
)
def test_immutable_fields_of_a_pod(
    before: dict[str, Any], change: dict[str, Any], field: str, text: str
) -> None:
    old = pod(**before)
    new = clone(old)
    for key, item in change.items():
        if item is None:
            del new["spec"][key]
        else:
            new["spec"][key] = item
    found = [
        (cause.field, cause.message)
        for cause in validate(strategy_of("", "Pod"), new, old)
        if "Required" not in cause.message
    ]
    assert found[0][0] == field
    assert text in found[0][1]


def test_names_and_finalizers_of_a_terminating_object_are_immutable() -> None:
    old = pod()
    new = clone(old)
    new["metadata"]["name"] = "other"
    assert faults(new, old) == [("metadata.name", 'Invalid value: "other": field is immutable')]
    new = clone(old)
    old["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    new["metadata"]["finalizers"] = ["a/b"]
    ((field, message),) = faults(new, old)
    assert field == "metadata.finalizers"
    assert "no new finalizers can be added if the object is being deleted" in message
