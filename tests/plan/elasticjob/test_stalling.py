"""ElasticJobs whose workers hang: what is counted, recreated and reported."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from plan.elasticjob.world import ElasticWorld, elastic
from plan.world import CrashedError
from traincrew.plan.shared.model import Event

SILENT = "No output and no status change of any pod for 600 s"


def world(*arguments: Any, **fields: Any) -> ElasticWorld:
    """A job with a deadline of 600 s, of which every worker has been running for 60 s."""
    fields = {"progressDeadlineSeconds": 600, **fields}
    return ElasticWorld(elastic(*arguments, **fields)).begin()


def hang(job: ElasticWorld) -> None:
    """Nothing happens until the deadline is exceeded."""
    job.pass_time(601)
    job.settle()


def test_workers_that_hang_are_recreated_and_counted_once() -> None:
    job = world(3)
    before = [job.uid(index) for index in range(3)]
    job.pass_time(601)
    job.step()
    assert job.status["phase"] == "Restarting"
    assert job.status["reason"] == "NoProgress"
    assert job.status["message"] == f"{SILENT}; 3 workers will be recreated"
    assert job.status["failures"] == 1
    assert job.events[-1] == Event("Warning", "NoProgress", job.status["message"])
    assert [job.uid(index) for index in range(3)] == before

    job.settle()
    assert job.workers == [0, 1, 2]
    assert not {job.uid(index) for index in range(3)} & set(before)
    assert job.status["reason"] == "NoProgress"
    assert job.status["message"] == SILENT
    job.run()
    job.settle()
    assert job.status["phase"] == "Running"
    assert job.status["failures"] == 1
    assert job.status["restarts"] == 3
    assert job.reasons().count("NoProgress") == 1


def test_a_job_that_writes_output_is_asked_once_per_deadline() -> None:
    job = world(3)
    for _ in range(50):
        job.pass_time(60)
        job.print(job.pod(1))
        job.settle()
    assert job.status["phase"] == "Running"
    assert job.status.get("failures", 0) == 0
    assert len(job.requests) <= 8
    assert set(job.requests[2:]) == {"flowers-worker-1"}


def test_the_job_is_requeued_when_the_deadline_is_due() -> None:
    job = world()
    assert job.requeue_after == 600  # `begin` has passed 60 s since it was last reconciled
    job.print(job.pod(0))
    job.pass_time(560)
    job.settle()
    assert job.requeue_after == pytest.approx(40)


def test_without_the_field_a_silent_job_runs_for_ever() -> None:
    job = ElasticWorld(elastic()).begin()
    hang(job)
    assert job.status["phase"] == "Running"
    assert job.requests == []


def test_output_that_cannot_be_read_is_not_silence() -> None:
    job = world()
    job.unreachable = {"flowers-worker-1"}
    hang(job)
    assert job.status["phase"] == "Running"
    assert job.requeue_after == 30
    job.unreachable = set()
    job.pass_time(31)
    job.settle()
    assert job.status["reason"] == "NoProgress"


def test_too_few_workers_wait_for_the_others_as_long_as_it_takes() -> None:
    job = ElasticWorld(elastic(2, minReplicas=2, progressDeadlineSeconds=600))
    job.settle()
    job.run("flowers-worker-0")
    job.settle()
    hang(job)
    assert job.status["phase"] == "Running"
    assert job.requests == []
    job.run()
    hang(job)
    assert job.status["reason"] == "NoProgress"


def test_enough_workers_that_hang_are_restarted_while_another_one_is_pending() -> None:
    job = ElasticWorld(elastic(3, progressDeadlineSeconds=600))
    job.settle()
    job.run()
    job.settle()
    job.delete("flowers-worker-2")
    job.settle()
    assert job.status["phase"] == "Restarting"
    pending = job.uid(2)
    hang(job)
    assert job.status["reason"] == "NoProgress"
    assert job.uid(2) == pending
    assert job.events[-1].reason == "NoProgress"


def test_a_suspended_job_is_not_assessed_and_starts_afresh() -> None:
    job = world()
    job.edit(suspend=True)
    job.settle()
    hang(job)
    assert job.status["phase"] == "Suspended"
    job.edit(suspend=False)
    job.settle()
    job.run()
    job.settle()
    assert job.status["phase"] == "Running"


def test_up_to_the_backoff_limit() -> None:
    job = world(backoffLimit=1)
    hang(job)
    job.run()
    job.settle()
    hang(job)
    assert job.status["phase"] == "Failed"
    assert job.status["reason"] == "NoProgress"
    assert job.status["message"] == f"{SILENT}; the backoff limit is reached"
    assert job.events[-1] == Event("Warning", "NoProgress", job.status["message"])
    assert job.status["failures"] == 1


def test_workers_that_are_never_restarted_fail_the_job() -> None:
    job = world(2, "Never")
    hang(job)
    assert job.status["phase"] == "Failed"
    assert job.status["reason"] == "NoProgress"
    assert job.status["message"].endswith("with restartPolicy Never the workers are not restarted")


def test_workers_that_hang_after_others_have_succeeded_fail_the_job() -> None:
    job = world()
    job.fail(0, 0)
    job.settle()
    hang(job)
    assert job.status["phase"] == "Failed"
    assert job.status["reason"] == "NoProgress"
    assert "workers have succeeded already" in job.status["message"]


def test_a_worker_that_fails_because_the_others_are_deleted_is_no_failure() -> None:
    job = world(3, hosted=True)
    job.pass_time(601)
    job.step()
    job.fail(1, 1)
    job.settle()
    assert job.workers == [0, 1, 2]
    assert job.status["phase"] == "Restarting"
    assert job.status["failures"] == 1


def test_a_worker_that_completes_before_it_is_deleted_has_succeeded() -> None:
    job = world()
    job.pass_time(601)
    job.step()
    job.fail(0, 0)
    job.fail(1, 0)
    job.settle()
    assert job.status["phase"] == "Succeeded"


@pytest.mark.parametrize("crash", range(6))
def test_an_operator_that_crashes_at_any_write_counts_and_recreates_the_same(crash: int) -> None:
    job = world(2)
    before = {job.uid(0), job.uid(1)}
    job.pass_time(601)
    job.crash_at = job.writes + crash
    with contextlib.suppress(CrashedError):
        job.settle()
    job.crash_at = None
    job.restart_operator()
    job.settle()
    job.run()
    job.settle()
    assert job.status["phase"] == "Running"
    assert not before & {job.uid(0), job.uid(1)}
    assert (job.status["failures"], job.status["restarts"]) == (1, 2)
