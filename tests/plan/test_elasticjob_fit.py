"""Fit to what there is: workers are given up for want of room, and asked for again."""

from __future__ import annotations

from typing import Any

import pytest

from plan.fit_world import AFTER, RETRY, FitWorld, fitting
from traincrew.plan import fit
from traincrew.plan.model import Event


def short(room: int = 2, replicas: int = 3, **fields: Any) -> FitWorld:
    """A job that has given up what it has no room for."""
    return FitWorld(fitting(replicas, **fields), room).later(AFTER)


# -- giving up ----------------------------------------------------------------------------------


def test_a_worker_without_room_is_given_up_after_a_while() -> None:
    job = FitWorld(fitting(), room=2)
    job.settle()
    assert job.workers == [0, 1, 2]
    assert job.status["phase"] == "Running"
    assert job.condition("Fitted") is None
    assert job.look_again_after == AFTER
    job.later(AFTER - 1)
    assert job.workers == [0, 1, 2]
    job.later(1)

    assert job.workers == [0, 1]
    assert job.services == [f"flowers-worker-{index}" for index in range(3)]
    assert job.status["fit"] == {"givenUpIndexes": "2", "lastGivenUpTime": job.stamp()}
    assert job.status["workersReady"] == "2/3"
    fitted = job.condition("Fitted")
    assert (fitted["status"], fitted["reason"]) == ("True", "WorkersGivenUp")
    assert fitted["message"] == ("2 of 3 workers are asked for; there is no room for Worker 2")
    assert job.status["message"] == (
        f"ElasticJob flowers is running. 2/3 workers running; {fitted['message']}"
    )
    assert job.events == [
        Event(
            "Warning",
            "WorkersGivenUp",
            "1 of 3 workers are given up: flowers-worker-2: Unschedulable: 0/1 nodes are"
            " available: 1 Insufficient cpu.",
        )
    ]
    assert job.look_again_after == RETRY


def test_it_is_stored_before_the_pod_goes() -> None:
    job = FitWorld(fitting(), room=2)
    job.settle()
    job.pass_time(AFTER)
    job.step()
    assert job.given_up == "2"
    assert job.workers == [0, 1, 2]
    job.step()

    assert job.workers == [0, 1]


def test_without_the_field_nobody_is_given_up() -> None:
    job = FitWorld(_plain(), room=1)
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
def test_down_to_the_fewest(least: int, room: int, left: list[int], given: str) -> None:
    job = short(room, minReplicas=least)

    assert job.workers == left
    assert job.given_up == given


def test_highest_first_among_those_without_room() -> None:
    job = FitWorld(fitting(minReplicas=2), room=3).begin()
    job.room = 2
    job.vanish("flowers-worker-1")
    job.later(AFTER)

    assert job.given_up == "1"
    assert job.workers == [0, 2]
    assert job.status["phase"] == "Running"


def test_without_a_host_among_them_any_worker_can_be_given_up() -> None:
    job = FitWorld(fitting(), room=3).begin()
    job.room = 2
    job.vanish("flowers-worker-0")
    job.later(AFTER)
    assert (job.given_up, job.workers) == ("0", [1, 2])
    job.room = 3
    job.later(RETRY)

    assert job.workers == [0, 1, 2]


def test_the_host_has_room_before_the_others_ask_for_it() -> None:
    job = FitWorld(fitting(hosted=True), room=0)
    job.later(10 * RETRY)
    assert job.workers == [0]
    assert job.given_up == ""
    assert len(job.services) == 3
    job.room = 2
    job.later(AFTER)

    assert job.workers == [0, 1]
    assert job.given_up == "2"
    assert job.status["phase"] == "Running"


def test_the_host_is_never_given_up() -> None:
    job = FitWorld(fitting(hosted=True), room=3).begin()
    job.room = 2
    job.vanish("digits-worker-0")
    job.later(AFTER + 10 * RETRY)

    assert job.given_up == ""
    assert job.workers == [0, 1, 2]


@pytest.mark.parametrize("reason", ["SchedulingGated", "Other"])
def test_what_is_held_back_on_purpose_is_waited_for(reason: str) -> None:
    job = FitWorld(fitting(), room=2)
    job.settle()
    job.pod(2)["status"]["conditions"][0]["reason"] = reason
    job.later(10 * RETRY)

    assert job.given_up == ""
    assert job.workers == [0, 1, 2]


def test_the_time_counts_from_the_schedulers_word() -> None:
    job = FitWorld(fitting(), room=2)
    job.settle()
    job.pass_time(AFTER - 1)
    job.pod(2)["status"]["conditions"][0]["lastTransitionTime"] = job.stamp()
    job.later(AFTER - 1)
    assert job.given_up == ""
    job.later(1)

    assert job.given_up == "2"


def test_a_pod_that_finds_room_at_the_last_moment_stays() -> None:
    job = FitWorld(fitting(), room=2)
    job.settle()
    job.pass_time(AFTER)
    job.step()
    job.room = 3
    job.controllers()
    before = job.uid(2)
    job.settle()

    assert job.uid(2) == before
    assert "fit" not in job.status
    assert job.condition("Fitted")["status"] == "False"


# -- asking again -------------------------------------------------------------------------------


def test_one_is_asked_for_again_and_goes_if_there_is_no_room() -> None:
    job = short(room=1)
    told = len(job.events)
    job.later(RETRY)
    assert job.workers == [0, 1]
    assert job.status["fit"]["retryIndex"] == 1
    assert job.holds("Fitted")
    assert job.look_again_after == AFTER
    job.later(AFTER)

    assert job.workers == [0]
    assert job.status["fit"] == {"givenUpIndexes": "1-2", "lastGivenUpTime": job.stamp()}
    assert job.look_again_after == RETRY
    assert len(job.events) == told
    assert job.status["restarts"] == 0


def test_when_one_has_room_the_next_one_is_asked_for_at_once() -> None:
    job = short(room=1)
    job.room = 3
    job.pass_time(RETRY)
    job.step()
    assert job.workers == [0, 1]
    job.settle()

    assert job.workers == [0, 1, 2]
    assert "fit" not in job.status
    assert job.status["workersReady"] == "3/3"
    fitted = job.condition("Fitted")
    assert (fitted["status"], fitted["reason"]) == ("False", "AllWorkersAskedFor")
    assert job.events[-1] == Event(
        "Normal", "AllWorkersAskedFor", "all 3 workers are asked for again"
    )
    assert job.status["restarts"] == 0


def test_room_for_some() -> None:
    job = short(room=1)
    job.room = 2
    job.later(RETRY).later(AFTER)

    assert job.workers == [0, 1]
    assert job.given_up == "2"


def test_a_worker_that_ran_before_is_no_restart_when_it_comes_back() -> None:
    job = FitWorld(fitting(), room=3).begin()
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


def test_those_that_are_left_succeed() -> None:
    job = short(room=2)
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


def test_the_one_tried_again_does_not_keep_a_job_from_success() -> None:
    job = short(room=2)
    job.later(RETRY)
    assert job.workers == [0, 1, 2]
    job.room = 0
    job.fail(0, 0)
    job.fail(1, 0)
    job.settle()

    assert job.status["phase"] == "Succeeded"


def test_a_worker_that_failed_for_good_is_replaced_by_one_given_up() -> None:
    job = short(room=2, minReplicas=2)
    assert job.given_up == "2"
    job.fail(1, 1)
    job.settle()

    assert job.status["phase"] == "Running"
    assert job.workers == [0, 1, 2]
    assert job.given_up == ""


def test_too_few_are_too_few() -> None:
    job = short(room=2, minReplicas=2)
    job.fail(0, 1)
    job.fail(1, 1)
    job.settle()

    assert job.status["phase"] == "Failed"


def test_scaling_out_asks_for_the_new_ones_and_scaling_in_forgets() -> None:
    job = short(room=1, replicas=2)
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


def test_more_than_the_fewest_are_asked_for_at_once() -> None:
    job = short(room=1)
    job.edit(minReplicas=2)
    job.settle()

    assert job.workers == [0, 1]
    assert job.given_up == "2"


def test_suspended_jobs_begin_anew() -> None:
    job = short(room=1)
    job.edit(suspend=True)
    job.settle()
    assert job.pods == {}
    assert "fit" not in job.status
    assert job.condition("Fitted")["status"] == "False"
    job.edit(suspend=False)
    job.settle()

    assert job.workers == [0, 1, 2]
    assert job.status["restarts"] == 0


def test_turned_off_all_are_asked_for() -> None:
    job = short(room=1)
    del job.job["spec"]["fitAvailable"]
    job.edit()
    job.settle()

    assert job.workers == [0, 1, 2]
    assert "fit" not in job.status
    assert not job.holds("Fitted")


def test_a_spec_that_became_wrong_changes_nothing() -> None:
    job = short(room=1)
    before = job.status["fit"]
    worker = job.job["spec"]["replicaSpecs"]["Worker"]
    job.edit(replicaSpecs={"Worker": worker, "worker": worker})
    job.later(10 * RETRY)

    assert job.workers == [0]
    assert job.status["fit"] == before
    assert job.holds("Fitted")


# -- as it is stored ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([1, 2, 3], "1-3"), ([7, 1, 5, 6], "1,5-7"), ([1, 3], "1,3")],
)
def test_numbers_as_text(numbers: list[int], text: str) -> None:
    assert fit.text_of(numbers) == text
    assert fit.indexes(text, 100) == set(numbers)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("x", set()), ("-3", set()), ("1-x,2", {2}), ("0-99999999999", {0, 1, 2, 3}), ("5-1", set())],
)
def test_what_others_wrote_there(text: str, numbers: set[int]) -> None:
    assert fit.indexes(text, 4) == numbers
