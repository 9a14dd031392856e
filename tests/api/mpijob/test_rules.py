"""What keeps an MPIJob from running: each problem names the field and the fix."""

from __future__ import annotations

from typing import Any

import pytest

from api.broken import ABSENT, Broken
from plan.mpijob.world import example
from traincrew.api.kinds.mpijob import types as api
from traincrew.api.kinds.mpijob.rules import problems
from traincrew.api.meta import ObjectMeta

_SPECS = "spec/mpiReplicaSpecs"
PI = example("pi")
WRONG = [
    Broken(PI, "metadata/name", "1pi", ("metadata.name", "begin with a letter")),
    Broken(PI, "metadata/name", "p" * 55, ("metadata.name", "shorten")),
    Broken(PI, f"{_SPECS}/Launcher", ABSENT, ("spec.mpiReplicaSpecs.Launcher", "add it")),
    Broken(PI, f"{_SPECS}/Launcher/replicas", 2, ("Launcher.replicas", "write 1")),
    Broken(PI, f"{_SPECS}/Worker/replicas", ABSENT, ("Worker.replicas", "write the number")),
    Broken(PI, f"{_SPECS}/PS", PI["spec"]["mpiReplicaSpecs"]["Worker"], ("Specs.PS", "Worker")),
    Broken(
        PI,
        f"{_SPECS}/Worker/template/spec/containers",
        [],
        ("Worker.template.spec.containers", "add it"),
    ),
    Broken(
        PI,
        "spec/runPolicy",
        {"schedulingPolicy": {"minAvailable": 9}},
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


@pytest.mark.parametrize("name", ["pi", "mpich", "everything"])
def test_the_examples_have_no_problem(name: str) -> None:
    assert not found(example(name))
