"""Finalizers of objects that jobs refer to."""

from __future__ import annotations

import pytest

from plan.trainjob.world import trained
from traincrew.plan.shared.kind import next_finalizers
from traincrew.plan.shared.model import ObjectKey
from traincrew.plan.trainjob import IN_USE, KIND

OTHER = "example.com/other"


@pytest.mark.parametrize(
    ("found", "used", "deleting", "wanted"),
    [
        ([], True, False, [IN_USE]),
        ([OTHER], True, False, [OTHER, IN_USE]),
        ([IN_USE], True, False, None),
        ([], False, False, None),
        ([IN_USE], False, False, None),
        ([OTHER, IN_USE], False, True, [OTHER]),
        ([OTHER, IN_USE], True, True, None),
        ([OTHER], True, True, None),
        ([OTHER], False, True, None),
    ],
)
def test_next_finalizers(
    found: list[str], used: bool, deleting: bool, wanted: list[str] | None
) -> None:
    assert next_finalizers(IN_USE, found, used=used, deleting=deleting) == wanted


@pytest.mark.parametrize(
    ("reference", "key"),
    [
        ({"name": "torch"}, ObjectKey("ClusterTrainingRuntime", "torch")),
        ({"name": "mine", "kind": "TrainingRuntime"}, ObjectKey("TrainingRuntime", "mine")),
        ({"name": "mine", "kind": "Deployment"}, None),
        ({"name": "mine", "apiGroup": "example.com"}, None),
        ({"name": ["mine"]}, None),
        ({"name": "mine", "kind": ["TrainingRuntime"]}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_runtime_of_a_trainjob(reference: object, key: ObjectKey | None) -> None:
    assert KIND.protection is not None
    assert KIND.protection.named({**trained()["spec"], "runtimeRef": reference}) == key
