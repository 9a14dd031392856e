"""Rules and defaults of volumes that are images, as upstream has them."""

from typing import Any

import pytest

from local.apiserver.strategies import default, strategy_of
from traincrew.local.apiserver import schema
from traincrew.local.apiserver.kinds.validation import validate


def made(kind: str, image: dict[str, Any]) -> dict[str, Any]:
    spec = {"containers": [{"name": "a", "image": "b"}], "volumes": [{"name": "v", "image": image}]}
    metadata = {"name": "p", "namespace": "default"}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole}


def faults(kind: str, image: dict[str, Any]) -> list[tuple[str, str]]:
    group = "" if kind == "Pod" else "apps"
    obj = made(kind, image)
    default(group, kind, obj)
    checked = schema.load_builtin(group, "v1", kind)
    found = checked.validate(obj) or validate(strategy_of(group, kind), obj, None)
    return [(cause.field, cause.message) for cause in found]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ({"reference": "me/data"}, "Always"),
        ({"reference": "me/data:latest"}, "Always"),
        ({"reference": "me/data:1"}, "IfNotPresent"),
        ({"reference": "me/data:1", "pullPolicy": "Never"}, "Never"),
    ],
)
def test_the_default_of_the_pull_policy(image: dict[str, Any], policy: str) -> None:
    obj = made("Pod", image)
    default("", "Pod", obj)
    assert obj["spec"]["volumes"][0]["image"]["pullPolicy"] == policy


def test_a_pod_names_an_image_and_a_template_need_not() -> None:
    assert faults("Pod", {"reference": "me/data:1"}) == []
    assert faults("Pod", {}) == [("spec.volumes[0].image.reference", "Required value")]
    assert faults("Deployment", {}) == []


def test_a_pull_policy_that_is_none() -> None:
    assert faults("Pod", {"reference": "me/data:1", "pullPolicy": "Sometimes"}) == [
        (
            "spec.volumes[0].image.pullPolicy",
            'Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
        )
    ]
