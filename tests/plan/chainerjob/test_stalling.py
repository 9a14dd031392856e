"""ChainerJobs that hang: the master is restarted by its Job, or the job fails."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from plan.chainerjob.world import ChainerWorld, distributed
from plan.world import CrashedError
from traincrew.plan.shared.model import Event

SILENT = "No output and no status change of any pod for 600 s"


def world(**policy: Any) -> ChainerWorld:
    """A job with a deadline of 600 s, which runs."""
    job = ChainerWorld(distributed(runPolicy={"progressDeadlineSeconds": 600, **policy}))
    job.settle()
    job.run()
    job.settle()
    job.run()
    job.settle()
    assert job.status["phase"] == "Running"
    return job


def hang(job: ChainerWorld) -> None:
    """Nothing happens until the deadline is exceeded."""
    job.pass_time(601)
    job.settle()


def test_a_master_that_hangs_is_restarted_by_its_job() -> None:
    job = world()
    first = job.master_pod["metadata"]["name"]
    workers = {name for name in job.pods if name != first}
    job.pass_time(601)
    job.step()
    assert job.status["phase"] == "Restarting"
    assert job.status["reason"] == "NoProgress"
    assert job.status["message"] == f"{SILENT}; the master is restarted"
    assert job.events[-1] == Event("Warning", "NoProgress", job.status["message"])
    assert first in job.pods

    job.settle()
    assert first not in job.pods
    assert workers < job.pods.keys()
    assert job.status["reason"] == "NoProgress"
    assert job.status["message"] == f"{SILENT}; the master is tried again (1/6 retries used)"
    job.run()
    job.settle()
    assert job.status["phase"] == "Running"
    assert job.status["replicaStatuses"]["master"]["failed"] == 1
    assert job.status["replicaStatuses"]["master"]["restarts"] == 1
    assert job.status["restarts"] == 1
    assert [event.reason for event in job.events].count("NoProgress") == 1


def test_the_master_is_asked_first_and_its_output_is_enough() -> None:
    job = world()
    master = job.master_pod["metadata"]["name"]
    for _ in range(30):
        job.pass_time(100)
        job.print(job.master_pod)
        job.settle()
    assert job.status["phase"] == "Running"
    assert set(job.requests) == {master}
    assert len(job.requests) <= 6


def test_output_of_any_worker_is_enough() -> None:
    job = world()
    (worker, *_) = (pod for name, pod in job.pods.items() if name.endswith("-ws0-1"))
    job.pass_time(590)
    job.print(worker)
    job.pass_time(20)
    job.settle()
    assert job.status["phase"] == "Running"
    assert job.requeue_after == pytest.approx(580)


def test_a_job_that_waits_for_its_workers_is_not_assessed() -> None:
    job = ChainerWorld(distributed(runPolicy={"progressDeadlineSeconds": 60}))
    job.settle()
    job.run("example-job-mn-workerset-ws0-0")
    hang(job)
    assert job.status["phase"] == "Created"
    assert job.requests == []


def test_past_the_backoff_limit_the_job_fails() -> None:
    job = world(backoffLimit=0)
    hang(job)
    assert job.status["phase"] == "Failed"
    assert job.status["reason"] == "NoProgress"
    assert job.status["message"].startswith(f"{SILENT}; Job has reached the specified backoff")
    assert job.events[-1].type == "Warning"
    assert job.events[-1].message.startswith(f"NoProgress: {SILENT}")


def test_a_master_that_exits_with_0_because_it_is_deleted_has_not_succeeded() -> None:
    job = world()
    job.exits_with = 0
    hang(job)
    assert job.status["phase"] == "Failed"
    assert job.status["reason"] == "NoProgress"
    assert "exited with code 0 when it was ended" in job.status["message"]


def test_a_master_that_completes_before_it_is_deleted_has_succeeded() -> None:
    job = world()
    job.pass_time(601)
    job.step()
    job.end(job.master_pod, 0)
    job.settle()
    assert job.status["phase"] == "Succeeded"


@pytest.mark.parametrize("crash", range(4))
def test_an_operator_that_crashes_at_any_write_restarts_the_master_once(crash: int) -> None:
    job = world()
    first = job.master_pod["metadata"]["uid"]
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
    assert job.master_pod["metadata"]["uid"] != first
    assert job.status["replicaStatuses"]["master"]["failed"] == 1
    assert job.status["restarts"] == 1
