"""The claims of volumes of a JobSet: created before its Jobs, used again, deleted or kept."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plan.jobset.world import JobSetWorld, example
from plan.world import JOB_UID
from traincrew.plan.shared.model import ChildKey, ObjectKey, ObjectQuery, Plan

CLAIM = "PersistentVolumeClaim"
SCRATCH, MODEL = ChildKey(CLAIM, "scratch-digits"), ChildKey(CLAIM, "model-digits")


def jobset(**spec: Any) -> JobSetWorld:
    return JobSetWorld(copy.deepcopy(example("claims", **spec)))


def claims(world: JobSetWorld) -> set[ChildKey]:
    return {key for key in world.children if key.kind == CLAIM}


def stored(world: JobSetWorld, name: str, **metadata: Any) -> None:
    """A claim of this template is there before the JobSet."""
    spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "one", "volumeMode": "Filesystem"}
    found = {"kind": CLAIM, "metadata": {"name": f"{name}-digits", **metadata}, "spec": spec}
    world.objects[ObjectKey(CLAIM, f"{name}-digits")] = found


def test_claims_are_created_before_jobs_and_only_those_to_delete_have_an_owner() -> None:
    world = jobset()
    plan = world.plan()

    first, second = plan.stages
    created = [write.create["kind"] for write in first if write.create is not None]
    assert created == ["Service", CLAIM, CLAIM]
    assert {write.create["kind"] for write in second if write.create is not None} == {"Job"}
    world.begin()
    assert claims(world) == {SCRATCH, MODEL}
    (owner,) = world.children[SCRATCH]["metadata"]["ownerReferences"]
    assert owner["uid"] == JOB_UID
    assert "ownerReferences" not in world.children[MODEL]["metadata"]


def test_a_suspended_jobset_has_its_claims() -> None:
    world = jobset(suspend=True)
    world.settle()

    assert claims(world) == {SCRATCH, MODEL}


def test_a_claim_that_is_gone_is_created_for_the_next_attempt() -> None:
    world = jobset(failurePolicy={"maxRestarts": 1}).begin()
    del world.children[SCRATCH]
    world.fail("workers-0")
    world.settle()

    assert claims(world) == {SCRATCH, MODEL}


def test_claims_are_not_read_while_all_jobs_are_there() -> None:
    world = jobset().begin()

    decision = world._plan(world.observed(), world.now)

    assert not isinstance(decision, ObjectQuery)


def test_a_claim_that_was_kept_is_used_again() -> None:
    world = jobset()
    stored(world, "model")
    world.begin()

    assert claims(world) == {SCRATCH}
    assert world.status["phase"] == "Running"


def test_a_claim_that_was_kept_with_another_spec_fails_the_jobset() -> None:
    world = jobset()
    stored(world, "model")
    world.objects[ObjectKey(*MODEL)]["spec"]["accessModes"] = ["ReadOnlyMany"]
    world.settle()

    failed = world.conditions["Failed"]
    assert "spec.volumeClaimPolicies[1].templates[0].spec" in failed["message"]
    assert "model-digits exists with another accessModes" in failed["message"]
    assert not world.jobs


@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        pytest.param("scratch", {}, id="not owned by the JobSet, which would delete it"),
        pytest.param("model", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="being deleted"),
    ],
)
def test_to_create_a_claim_says_that_one_is_in_the_way(name: str, metadata: dict[str, str]) -> None:
    world = jobset()
    stored(world, name, **metadata)
    plan = world.plan()

    assert isinstance(plan, Plan)
    created = {ChildKey.of(write.create) for write in plan.stages[0] if write.create is not None}
    assert ChildKey(CLAIM, f"{name}-digits") in created
