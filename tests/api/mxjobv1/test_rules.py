"""What keeps an MXJob of training-operator from running."""

from __future__ import annotations

from typing import Any

import pytest

from api.broken import ABSENT, Broken
from plan.mxjobv1.world import example
from traincrew.api.kinds.mxjobv1 import types as api
from traincrew.api.kinds.mxjobv1.rules import problems
from traincrew.api.meta import ObjectMeta

_SPECS = "spec/mxReplicaSpecs"
_CONTAINERS = "template/spec/containers"
TRAIN = example("train")
WRONG = [
    Broken(TRAIN, "metadata/name", "1digits", ("metadata.name", "begin with a letter")),
    Broken(TRAIN, "metadata/name", "d" * 60, ("metadata.name", "shorten")),
    Broken(TRAIN, _SPECS, {}, ("spec.mxReplicaSpecs", "write a Scheduler")),
    Broken(TRAIN, f"{_SPECS}/Scheduler/replicas", 2, ("Scheduler.replicas", "write 1")),
    Broken(
        TRAIN,
        f"{_SPECS}/PS",
        TRAIN["spec"]["mxReplicaSpecs"]["Worker"],
        ("spec.mxReplicaSpecs.PS", "write one of Scheduler"),
    ),
    Broken(
        TRAIN,
        f"{_SPECS}/Worker/{_CONTAINERS}",
        [{"name": "main", "image": "busybox"}],
        ("Worker.template.spec.containers", "no container is named mxnet", "rename"),
    ),
    Broken(
        TRAIN, f"{_SPECS}/Worker/{_CONTAINERS}/0/image", ABSENT, ("containers[0].image", "write")
    ),
    Broken(
        TRAIN,
        "spec/runPolicy/schedulingPolicy/minAvailable",
        9,
        ("spec.runPolicy.schedulingPolicy.minAvailable", "at most 4"),
    ),
]


def found(job: dict[str, Any]) -> list[str]:
    metadata = ObjectMeta(name=job["metadata"]["name"])
    return [str(problem) for problem in problems(metadata, api.decode(job["spec"]))]


@pytest.mark.parametrize("broken", WRONG, ids=lambda broken: broken.title)
def test_a_problem_names_the_field_and_the_fix(broken: Broken) -> None:
    (problem, *_) = found(broken.manifest())

    assert all(text in problem for text in broken.says), problem


@pytest.mark.parametrize("name", ["train", "tune"])
def test_valid_jobs_have_no_problem(name: str) -> None:
    assert found(example(name)) == []
