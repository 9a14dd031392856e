"""What keeps a PyTorchJob from running: each problem names the field and the fix."""

from __future__ import annotations

from typing import Any

import pytest

from api.broken import ABSENT, Broken
from plan.pytorchjob.world import example
from traincrew.api.kinds.pytorchjob import types as api
from traincrew.api.kinds.pytorchjob.rules import problems
from traincrew.api.meta import ObjectMeta

_SPECS = "spec/pytorchReplicaSpecs"
_CONTAINERS = "template/spec/containers"
MASTER, ELASTIC = example("master"), example("elastic")
WRONG = [
    Broken(MASTER, "metadata/name", "1digits", ("metadata.name", "begin with a letter")),
    Broken(MASTER, "metadata/name", "d" * 60, ("metadata.name", "shorten")),
    Broken(MASTER, _SPECS, {}, ("spec.pytorchReplicaSpecs", "write a Master, a Worker")),
    Broken(MASTER, f"{_SPECS}/Master/replicas", 2, ("Master.replicas", "write 1")),
    Broken(MASTER, f"{_SPECS}/Master/replicas", ABSENT, ("Master.replicas", "write 1")),
    Broken(
        MASTER,
        f"{_SPECS}/PS",
        MASTER["spec"]["pytorchReplicaSpecs"]["Worker"],
        ("spec.pytorchReplicaSpecs.PS", "write Master or Worker"),
    ),
    Broken(
        MASTER,
        f"{_SPECS}/Worker/{_CONTAINERS}",
        [{"name": "main", "image": "busybox"}],
        ("Worker.template.spec.containers", "no container is named pytorch", "rename"),
    ),
    Broken(
        MASTER, f"{_SPECS}/Worker/{_CONTAINERS}/0/image", ABSENT, ("containers[0].image", "write")
    ),
    Broken(ELASTIC, f"{_SPECS}/Worker", ABSENT, ("spec.pytorchReplicaSpecs", "a Worker, or both")),
    Broken(ELASTIC, "spec/nprocPerNode", "2", ("elasticPolicy.nProcPerNode", "write only spec")),
    Broken(ELASTIC, "spec/elasticPolicy/minReplicas", 9, ("minReplicas", "lower it")),
    Broken(
        MASTER,
        "spec/runPolicy/schedulingPolicy/minAvailable",
        9,
        ("spec.runPolicy.schedulingPolicy.minAvailable", "at most 3"),
    ),
]


def found(job: dict[str, Any]) -> list[str]:
    metadata = ObjectMeta(name=job["metadata"]["name"])
    return [str(problem) for problem in problems(metadata, api.decode(job["spec"]))]


@pytest.mark.parametrize("broken", WRONG, ids=lambda broken: broken.title)
def test_a_problem_names_the_field_and_the_fix(broken: Broken) -> None:
    (problem, *_) = found(broken.manifest())

    assert all(text in problem for text in broken.says), problem


@pytest.mark.parametrize("name", ["master", "elastic", "everything"])
def test_valid_jobs_have_no_problem(name: str) -> None:
    assert found(example(name)) == []
