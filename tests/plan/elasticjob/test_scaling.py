"""Fit to the available capacity: unschedulable workers are given up, and retried."""

from __future__ import annotations

from typing import Any

import pytest

from plan.elasticjob.scaling_world import AFTER, RETRY, ScalingWorld, fitting
from traincrew.plan.shared.model import Event


def cannot_fit(room: int = 2, replicas: int = 3, **fields: Any) -> ScalingWorld:
    """A job that has given up what it has no room for."""
    return ScalingWorld(fitting(replicas, **fields), room).later(AFTER)


# -- giving up ----------------------------------------------------------------------------------


def test_an_unschedulable_worker_is_given_up_after_a_while() -> None:
    job = ScalingWorld(fitting(), room=2)
    job.settle()
    assert job.workers == [0, 1, 2]
    assert job.status["phase"] == "Running"
    assert "Fitted" not in job.conditions
    assert job.requeue_after == AFTER
    job.later(AFTER - 1)
    assert job.workers == [0, 1, 2]
    job.later(1)

    assert job.workers == [0, 1]
    assert job.services == [f"flowers-worker-{index}" for index in range(3)]
    assert job.status["fit"] == {"givenUpIndexes": "2", "lastGivenUpTime": job.stamp()}
    assert job.status["workersReady"] == "2/3"
    fitted = job.conditions["Fitted"]
    assert (fitted["status"], fitted["reason"]) == ("True", "WorkersGivenUp")
    assert fitted["message"] == ("2 of 3 workers are asked for; there is no room for Worker 2")
    assert job.status["message"] == (
        f"ElasticJob flowers is running. 2/3 workers running; {fitted['message']}"
    )
    assert job.events == [
        Event(
            "Warning",
            "WorkersGivenUp",
            "1 of 3 workers is given up: flowers-worker-2: Unschedulable: 0/1 nodes are"
            " available: 1 Insufficient cpu.",
        )
    ]
    assert job.requeue_after == RETRY


def test_it_is_stored_before_the_pod_is_deleted() -> None:
    job = ScalingWorld(fitting(), room=2)
    job.settle()
    job.pass_time(AFTER)
    job.step()
    assert job.given_up == "2"
    assert job.workers == [0, 1, 2]
    job.step()

    assert job.workers == [0, 1]


def test_without_the_field_no_worker_is_given_up() -> None:
    job = ScalingWorld(_plain(), room=1)
    job.later(10 * RETRY)

    assert job.workers == [0, 1, 2]
    assert "fit" not in job.status


def _plain() -> dict[str, Any]:
    manifest = fitting()
    del manifest["spec"]["fitAvailable"]
    return manifest


@pytest.mark.parametrize(
    ("least", "room", "left", "given"),
    [
        (1, 0, [0], "1-2"),
        (1, 1, [0], "1-2"),
        (2, 1, [0, 1], "2"),
        (2, 2, [0, 1], "2"),
        (2, 3, [0, 1, 2], ""),
    ],
)
def test_workers_are_given_up_down_to_min_replicas(
    least: int, room: int, left: list[int], given: str
) -> None:
    job = cannot_fit(room, minReplicas=least)

    assert job.workers == left
    assert job.given_up == given


def test_the_highest_index_is_given_up_first() -> None:
    job = ScalingWorld(fitting(minReplicas=2), room=3).begin()
    job.room = 2
    job.vanish("flowers-worker-1")
    job.later(AFTER)

    assert job.given_up == "1"
    assert job.workers == [0, 2]
    assert job.status["phase"] == "Running"


def test_any_worker_can_be_given_up_with_an_external_rendezvous() -> None:
    job = ScalingWorld(fitting(), room=3).begin()
    job.room = 2
    job.vanish("flowers-worker-0")
    job.later(AFTER)
    assert (job.given_up, job.workers) == ("0", [1, 2])
    job.room = 3
    job.later(RETRY)

    assert job.workers == [0, 1, 2]


def test_the_host_is_scheduled_before_the_others_are_created() -> None:
    job = ScalingWorld(fitting(hosted=True), room=0)
    job.later(10 * RETRY)
    assert job.workers == [0]
    assert job.given_up == ""
    assert job.services == ["digits-worker-0"]
    job.room = 2
    job.later(AFTER)

    assert job.workers == [0, 1]
    assert job.services[:2] == ["digits-worker-0", "digits-worker-1"]
    assert job.given_up == "2"
    assert job.status["phase"] == "Running"


def test_the_host_is_never_given_up() -> None:
    job = ScalingWorld(fitting(hosted=True), room=3).begin()
    job.room = 2
    job.vanish("digits-worker-0")
    job.later(AFTER + 10 * RETRY)

    assert job.given_up == ""
    assert job.workers == [0, 1, 2]


@pytest.mark.parametrize("reason", ["SchedulingGated", "Other"])
def test_gated_pods_are_not_given_up(reason: str) -> None:
    job = ScalingWorld(fitting(), room=2)
    job.settle()
    job.pod(2)["status"]["conditions"][0]["reason"] = reason
    job.later(10 * RETRY)

    assert job.given_up == ""
    assert job.workers == [0, 1, 2]


def test_the_time_starts_with_the_schedulers_condition() -> None:
    job = ScalingWorld(fitting(), room=2)
    job.settle()
    job.pass_time(AFTER - 1)
    job.pod(2)["status"]["conditions"][0]["lastTransitionTime"] = job.stamp()
    job.later(AFTER - 1)
    assert job.given_up == ""
    job.later(1)

    assert job.given_up == "2"


def test_a_pod_that_is_scheduled_at_the_last_moment_stays() -> None:
    job = ScalingWorld(fitting(), room=2)
    job.settle()
    job.pass_time(AFTER)
    job.step()
    job.room = 3
    job.controllers()
    before = job.uid(2)
    job.settle()

    assert job.uid(2) == before
    assert "fit" not in job.status
    assert job.conditions["Fitted"]["status"] == "False"


# -- asking again -------------------------------------------------------------------------------


def test_one_worker_is_retried_and_deleted_if_unschedulable() -> None:
    job = cannot_fit(room=1)
    told = len(job.events)
    job.later(RETRY)
    assert job.workers == [0, 1]
    assert job.status["fit"]["retryIndex"] == 1
    assert job.holds("Fitted")
    assert job.requeue_after == AFTER
    job.later(AFTER)

    assert job.workers == [0]
    assert job.status["fit"] == {"givenUpIndexes": "1-2", "lastGivenUpTime": job.stamp()}
    assert job.requeue_after == RETRY
    assert len(job.events) == told
    assert job.status["restarts"] == 0


def test_when_one_is_scheduled_the_next_one_is_retried_at_once() -> None:
    job = cannot_fit(room=1)
    job.room = 3
    job.pass_time(RETRY)
    job.step()
    assert job.workers == [0, 1]
    job.settle()

    assert job.workers == [0, 1, 2]
    assert "fit" not in job.status
    assert job.status["workersReady"] == "3/3"
    fitted = job.conditions["Fitted"]
    assert (fitted["status"], fitted["reason"]) == ("False", "AllWorkersAskedFor")
    assert job.events[-1] == Event(
        "Normal", "AllWorkersAskedFor", "all 3 workers are asked for again"
    )
    assert job.status["restarts"] == 0


def test_capacity_for_some_of_the_workers() -> None:
    job = cannot_fit(room=1)
    job.room = 2
    job.later(RETRY).later(AFTER)

    assert job.workers == [0, 1]
    assert job.given_up == "2"


def test_a_retried_worker_that_ran_before_is_no_restart() -> None:
    job = ScalingWorld(fitting(), room=3).begin()
    job.room = 2
    job.vanish("flowers-worker-2")
    job.settle()
    assert job.status["phase"] == "Restarting"
    restarts = job.status["restarts"]
    job.later(AFTER)
    assert job.given_up == "2"
    assert job.status["phase"] == "Running"
    job.room = 3
    job.later(RETRY)

    assert job.workers == [0, 1, 2]
    assert job.status["phase"] == "Running"
    assert job.status["restarts"] == restarts


# -- with everything else -----------------------------------------------------------------------


def test_the_remaining_workers_succeed() -> None:
    job = cannot_fit(room=2)
    job.fail(0, 0)
    job.settle()
    assert job.status["phase"] == "Running"
    job.later(2 * RETRY)
    assert job.workers == [0, 1]  # who would come now finds nobody to train with
    job.fail(1, 0)
    job.settle()

    assert job.status["phase"] == "Succeeded"
    assert job.given_up == "2"
    assert job.holds("Fitted")


def test_a_retried_worker_does_not_prevent_success() -> None:
    job = cannot_fit(room=2)
    job.later(RETRY)
    assert job.workers == [0, 1, 2]
    job.room = 0
    job.fail(0, 0)
    job.fail(1, 0)
    job.settle()

    assert job.status["phase"] == "Succeeded"


def test_a_permanently_failed_worker_is_replaced_by_one_given_up() -> None:
    job = cannot_fit(room=2, minReplicas=2)
    assert job.given_up == "2"
    job.fail(1, 1)
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.workers == [0, 1, 2]
    assert job.given_up == ""


def test_giving_up_does_not_change_when_a_job_fails() -> None:
    job = cannot_fit(room=2, minReplicas=2)
    job.fail(0, 1)
    job.fail(1, 1)
    job.settle()

    assert job.status["phase"] == "Failed"


def test_scaling_out_creates_new_workers_and_scaling_in_clears_the_state() -> None:
    job = cannot_fit(room=1, replicas=2)
    assert job.given_up == "1"
    job.scale(3)
    job.settle()
    assert job.workers == [0, 2]
    job.later(AFTER)
    assert (job.workers, job.given_up) == ([0], "1-2")
    job.scale(2)
    job.settle()
    assert job.given_up == "1"
    assert job.services == ["flowers-worker-0", "flowers-worker-1"]
    job.scale(1)
    job.settle()

    assert "fit" not in job.status
    assert not job.holds("Fitted")
    assert job.workers == [0]


def test_raising_min_replicas_creates_workers_at_once() -> None:
    job = cannot_fit(room=1)
    job.edit(minReplicas=2)
    job.settle()

    assert job.workers == [0, 1]
    assert job.given_up == "2"


def test_resumed_jobs_create_all_workers() -> None:
    job = cannot_fit(room=1)
    job.edit(suspend=True)
    job.settle()
    assert job.pods == {}
    assert "fit" not in job.status
    assert job.conditions["Fitted"]["status"] == "False"
    job.edit(suspend=False)
    job.settle()

    assert job.workers == [0, 1, 2]
    assert job.status["restarts"] == 0


def test_removing_the_field_creates_all_workers() -> None:
    job = cannot_fit(room=1)
    del job.job["spec"]["fitAvailable"]
    job.edit()
    job.settle()

    assert job.workers == [0, 1, 2]
    assert "fit" not in job.status
    assert not job.holds("Fitted")


def test_an_invalid_spec_changes_nothing() -> None:
    job = cannot_fit(room=1)
    before = job.status["fit"]
    worker = job.job["spec"]["replicaSpecs"]["Worker"]
    job.edit(replicaSpecs={"Worker": worker, "worker": worker})
    job.later(10 * RETRY)

    assert job.workers == [0]
    assert job.status["fit"] == before
    assert job.holds("Fitted")


def _comes_back_unstored(**edit: Any) -> ScalingWorld:
    """A job whose last worker comes back before anything but its being given up is stored."""
    job = ScalingWorld(fitting(), room=2)
    job.settle()
    job.pass_time(AFTER)
    job.step()
    uid = job.uid(2)
    job.defers = True
    job.settle()
    job.room = 3
    job.pass_time(RETRY)
    if edit:
        job.edit(**edit)
    job.settle()
    assert job.uid(2) != uid
    job.defers = False
    job.settle()
    return job


@pytest.mark.parametrize("edit", [{}, {"minReplicas": 3}, {"fitAvailable": None}])
def test_a_worker_recreated_before_that_is_stored_is_no_restart(edit: dict[str, Any]) -> None:
    job = _comes_back_unstored(**edit)
    assert job.status["workersReady"] == "3/3"
    assert "fit" not in job.status
    assert job.status["restarts"] == 0


def test_a_recreated_worker_that_fails_is_a_restart() -> None:
    job = _comes_back_unstored()
    job.fail(2, 137)
    job.pass_time(60)
    job.settle()
    assert job.status["restarts"] == 1
    assert job.status["failures"] == 1


def test_a_worker_scheduled_before_it_is_deleted_is_no_restart() -> None:
    job = ScalingWorld(fitting(), room=2)
    job.settle()
    job.pass_time(AFTER)
    job.step()
    uid = job.uid(2)
    assert job.given_up == "2"
    job.room = 3
    job.controllers()
    job.settle()
    assert (job.uid(2), job.status["restarts"]) == (uid, 0)
    job.fail(2, 137)
    job.pass_time(60)
    job.settle()
    assert (job.status["restarts"], job.status["failures"]) == (1, 1)


def test_messages_about_one_worker_are_in_the_singular() -> None:
    job = cannot_fit(room=1)
    assert job.conditions["Fitted"]["message"].startswith("1 of 3 workers is asked for;")
    job.scale(1)
    job.settle()
    assert "workers are" not in job.status["message"]
