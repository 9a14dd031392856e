"""Static defaults of the built-in kinds; what they are is recorded."""

from typing import Any

import pytest

from local.apiserver import recordings
from local.apiserver.strategies import default, default_after_uid
from traincrew.local.apiserver.values.codec import clone

CASES = [
    pytest.param(case["object"], id=f"{file.stem}, {case['name']}")
    for file in recordings.files()
    for case in recordings.read(file)["cases"]
]


@pytest.mark.parametrize("sent", CASES)
def test_defaults_that_are_set_twice_change_nothing(sent: dict[str, Any]) -> None:
    obj = clone(sent)
    group = obj["apiVersion"].rpartition("/")[0]
    default(group, obj["kind"], obj)
    once = clone(obj)
    default(group, obj["kind"], obj)
    assert obj == once


def test_a_job_selects_by_its_uid_unless_it_has_a_selector_of_its_own() -> None:
    manual = {"spec": {"manualSelector": True, "template": {}}, "metadata": {"uid": "u"}}
    before = clone(manual)
    default_after_uid("batch", "Job", manual)
    assert manual == before


@pytest.mark.parametrize("spec", [None, 1, "x", [], {"template": 1}, {"containers": {"a": 1}}])
@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Pod"),
        ("v1", "Service"),
        ("v1", "Namespace"),
        ("batch/v1", "Job"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "DaemonSet"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ],
)
def test_defaults_leave_malformed_objects_alone(api_version: str, kind: str, spec: Any) -> None:
    group = api_version.rpartition("/")[0]
    obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    default(group, kind, obj)
    default_after_uid(group, kind, obj)
