"""The rotation of ssh keys: which pairs the Secret has, and when a pair goes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from plan.mpicluster.manifests import interactive, one_shot
from plan.mpicluster.world import MPIWorld
from plan.world import CrashedError
from traincrew.api.kinds.mpicluster import types as api
from traincrew.api.kinds.mpicluster.rules import problems
from traincrew.api.kinds.mpicluster.ssh import GIVEN_KEYS
from traincrew.api.meta import ObjectMeta
from traincrew.plan.shared.model import ChildKey, Refusal

SECRET = "hello-ssh-key"
OVERLAP = 300


def started(manifest: dict[str, Any] | None = None, **spec: Any) -> MPIWorld:
    world = MPIWorld(manifest or interactive(workers=2, **spec))
    world.start()
    return world


def rotate(world: MPIWorld, generation: int = 2, **ssh: Any) -> None:
    world.edit(ssh={"keyGeneration": generation, **ssh})
    world.settle()


def shown(world: MPIWorld) -> tuple[list[int], int, bool]:
    """Return the pairs in the Secret, and generation and whether a rotation goes on as told."""
    status = world.status
    rotating = "sshKeyRotationTime" in status
    return world.generations[SECRET], status["sshKeyGeneration"], rotating


def rotation_events(world: MPIWorld) -> list[str]:
    return [each.message for each in world.events if each.reason.startswith("Keys")]


def set_ready(world: MPIWorld, name: str, *, ready: bool) -> None:
    status = "True" if ready else "False"
    condition = {"type": "Ready", "status": status, "lastTransitionTime": world.stamp()}
    world.pods[name]["status"]["conditions"] = [condition]


def test_a_cluster_has_its_first_pair() -> None:
    assert shown(started()) == ([1], 1, False)


def test_both_pairs_are_there_until_all_pods_have_the_new_one() -> None:
    world = started()
    uids = {pod["metadata"]["uid"] for pod in world.pods.values()}
    world.pass_time(3600)
    rotate(world)
    assert shown(world) == ([2, 1], 2, True)
    assert world.status["sshKeyRotationTime"] == world.stamp()
    assert world.requeue_after == OVERLAP
    world.pass_time(OVERLAP - 1)
    world.settle()
    assert shown(world) == ([2, 1], 2, True)
    world.pass_time(1)
    world.settle()
    assert shown(world) == ([2], 2, False)
    assert rotation_events(world) == [
        "The ssh keys are rotated: the pods get key pair 2, and still accept the one before it",
        "The ssh keys are rotated: the pods accept only key pair 2",
    ]
    assert {pod["metadata"]["uid"] for pod in world.pods.values()} == uids, "no pod is replaced"
    assert (world.status["restarts"], world.status["phase"]) == (0, "Running")


def test_a_running_command_goes_on() -> None:
    world = started(one_shot(workers=2))
    rotate(world)
    world.pass_time(OVERLAP)
    world.settle()
    assert shown(world) == ([2], 2, False)
    assert (world.status["phase"], world.status.get("failures", 0)) == ("Running", 0)


def test_the_overlap_is_that_of_the_spec() -> None:
    world = started()
    rotate(world, keyOverlapSeconds=10)
    world.pass_time(10)
    world.settle()
    assert shown(world) == ([2], 2, False)


def test_a_pod_that_is_not_ready_may_not_have_the_new_pair() -> None:
    """Its node may not be reachable, and gets to its volumes only when it is again."""
    world = started()
    world.pass_time(60)
    rotate(world)
    set_ready(world, "hello-worker-1", ready=False)
    world.pass_time(10 * OVERLAP)
    world.settle()
    assert shown(world) == ([2, 1], 2, True)
    set_ready(world, "hello-worker-1", ready=True)
    world.settle()
    assert shown(world) == ([2, 1], 2, True)
    world.pass_time(OVERLAP)
    world.settle()
    assert shown(world) == ([2], 2, False)


def test_a_pod_that_is_younger_has_the_new_pair() -> None:
    world = started()
    rotate(world)
    world.pass_time(60)
    world.scale(3)
    world.settle()
    world.pass_time(OVERLAP)
    world.settle()
    assert world.status["workersReady"] == "2/3"
    assert shown(world) == ([2], 2, False)


def test_rotations_follow_each_other() -> None:
    """The pair before the last may not go while pods may have it."""
    world = started()
    rotate(world, 2)
    rotate(world, 5)
    assert shown(world) == ([2, 1], 2, True)
    world.pass_time(OVERLAP)
    world.settle()
    assert shown(world) == ([5, 2], 5, True)
    world.pass_time(OVERLAP)
    world.settle()
    assert shown(world) == ([5], 5, False)


def test_a_lower_number_has_no_effect() -> None:
    world = started()
    rotate(world, 3)
    world.pass_time(OVERLAP)
    world.settle()
    rotate(world, 1)
    assert shown(world) == ([3], 3, False)
    assert world.key_pairs == 2


def test_a_cluster_may_begin_with_any_number() -> None:
    world = started(ssh={"keyGeneration": 7})
    assert shown(world)[:2] == ([7], 7)
    assert world.key_pairs == 1
    world.pass_time(OVERLAP)
    world.settle()
    assert shown(world) == ([7], 7, False)


def test_a_rotation_of_a_suspended_cluster_is_made_when_it_is_resumed() -> None:
    world = started()
    world.edit(runPolicy={"suspend": True})
    world.settle()
    rotate(world)
    assert shown(world) == ([1], 1, False)
    world.edit(runPolicy={"suspend": False})
    world.start()
    assert shown(world) == ([2, 1], 2, True)
    world.pass_time(OVERLAP)
    world.settle()
    assert shown(world) == ([2], 2, False)


def test_a_suspension_does_not_end_a_rotation() -> None:
    world = started()
    rotate(world)
    world.edit(runPolicy={"suspend": True})
    world.settle()
    world.pass_time(OVERLAP)
    world.edit(runPolicy={"suspend": False})
    world.start()
    assert shown(world) == ([2], 2, False)


def test_a_rotation_asked_for_meanwhile_follows_also_after_a_suspension() -> None:
    """The master that the suspension deletes may still have the pair before the first rotation."""
    world = started()
    rotate(world, 2)
    world.edit(runPolicy={"suspend": True}, ssh={"keyGeneration": 3})
    world.step()
    world.edit(runPolicy={"suspend": False})
    world.step()
    assert shown(world) == ([2, 1], 2, True)
    world.start()
    world.pass_time(OVERLAP)
    world.settle()
    assert shown(world) == ([3, 2], 3, True)
    world.pass_time(OVERLAP)
    world.settle()
    assert shown(world) == ([3], 3, False)


def test_a_status_without_a_generation_is_the_first_pair() -> None:
    world = started()
    del world.job["status"]["sshKeyGeneration"]
    world.settle()
    assert shown(world) == ([1], 1, False)
    assert rotation_events(world) == []


def test_a_rotation_that_the_api_refuses_is_told_and_keeps_nothing_from_running() -> None:
    world = started()
    world.refuse = {ChildKey("Secret", SECRET): Refusal("it is immutable")}
    world.scale(1)
    rotate(world)
    world.settle()
    assert shown(world) == ([1], 1, False)
    assert world.workers == ["0"]
    (synced,) = [each for each in world.status["conditions"] if each["type"] == "Synced"]
    assert synced["message"] == f"Secret {SECRET}: it is immutable"
    world.refuse = {}
    world.settle()
    assert shown(world) == ([2, 1], 2, True)


# -- given keys ---------------------------------------------------------------------------------


def test_given_keys_are_not_rotated() -> None:
    world = started(ssh={"keySecretName": "mine"})
    world.edit(ssh={"keySecretName": "mine", "keyGeneration": 2})
    world.settle()
    (synced,) = [each for each in world.status["conditions"] if each["type"] == "Synced"]
    assert synced["message"] == (
        "spec.ssh.keyGeneration: the operator does not replace keys that it has not made; remove"
        " the field, and change the Secret of keySecretName"
    )
    assert "sshKeyGeneration" not in world.status
    assert (world.key_pairs, world.status["phase"]) == (0, "Running")


@pytest.mark.parametrize("name", ["mine", SECRET])
def test_given_keys_are_left_alone_even_under_the_name_of_ours(name: str) -> None:
    world = started(ssh={"keySecretName": name})
    assert world.key_pairs == 0
    assert "sshKeyGeneration" not in world.status


def test_the_rule_is_that_of_the_definition() -> None:
    spec = interactive(ssh={"keySecretName": "mine", "keyGeneration": 2})["spec"]
    (problem,) = problems(ObjectMeta(name="hello"), api.decode(spec))
    assert str(problem) == f"spec.ssh.keyGeneration: {GIVEN_KEYS}"


# -- crashes ------------------------------------------------------------------------------------


def test_an_operator_that_crashes_at_any_write_is_continued() -> None:
    """Between the Secret and the status, both when a rotation begins and when it ends."""
    for crash_at in itertools.count():
        world = started()
        world.writes, world.crash_at = 0, crash_at
        world.edit(ssh={"keyGeneration": 2})
        for _ in range(3):
            try:
                world.settle()
            except CrashedError:
                world.settle()
            assert world.status["sshKeyGeneration"] == 2
            world.pass_time(OVERLAP)
        assert shown(world) == ([2], 2, False)
        assert world.key_pairs == 2
        assert len(rotation_events(world)) == 2
        if world.crash_at is not None:
            assert crash_at >= 4, "two writes of the Secret, and two of the status"
            return
