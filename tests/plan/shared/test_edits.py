"""Pods that are deleted because a user edits the job are no failures."""

from __future__ import annotations

import copy

import msgspec
import pytest

from plan.chainerjob.world import ChainerWorld, distributed, plain
from plan.elasticjob.world import elastic
from plan.shared.lagging import LaggingChainer, LaggingElastic
from traincrew.plan.chainerjob.planner import plan
from traincrew.plan.shared.kind import Options
from traincrew.plan.shared.model import ChildKey, Confirm


def elastic_job(replicas: int = 3) -> LaggingElastic:
    """An ElasticJob whose workers run."""
    job = LaggingElastic(elastic(replicas))
    job.settle()
    job.run()
    job.settle()
    job.pass_time(60)
    return job


def chainer_job(replicas: int = 3) -> LaggingChainer:
    """A ChainerJob whose workers and master run."""
    manifest = distributed()
    manifest["spec"]["workerSets"]["ws0"]["replicas"] = replicas
    job = LaggingChainer(manifest)
    for _ in range(2):
        job.settle()
        job.run()
    job.settle()
    job.pass_time(60)
    assert job.status["phase"] == "Running"
    return job


def edit_workers(job: LaggingChainer, **fields: object) -> None:
    """Change the worker set of a ChainerJob."""
    sets = copy.deepcopy(job.job["spec"]["workerSets"])
    sets["ws0"].update(fields)
    job.edit(workerSets=sets)


def work(job: LaggingElastic | LaggingChainer) -> None:
    """Operator and controllers work; pods that are being deleted take their time."""
    for _ in range(4):
        job.catch_up(100)
        job.step()
        job.controllers()


def test_a_master_not_in_the_cache_is_read_before_the_job_fails() -> None:
    job = chainer_job()
    job.pass_time(3600)
    seen = job.observed()
    key = ChildKey("Job", "digits-mn-master")
    children = {name: view for name, view in seen.children.items() if name != key}
    options = Options(helper_image="x", git_image="x")
    found = plan(msgspec.structs.replace(seen, children=children), job.now, options=options)

    assert found == Confirm(unseen=(key,))


def warnings(job: LaggingElastic | LaggingChainer) -> list[str]:
    """Reasons of the Warning events."""
    return [event.reason for event in job.events if event.type == "Warning"]


def test_suspending_ends_a_master_that_was_replaced_within_a_second() -> None:
    """Both pods have the same creation time, which has whole seconds."""
    world = ChainerWorld(plain())
    world.settle()
    world.run()
    world.edit(runPolicy={"suspend": True})
    world.end(world.master_pod, 1)
    world.settle()

    (job,) = [child for key, child in world.children.items() if key.kind == "Job"]
    assert job["spec"]["suspend"] is True
    assert [pod["status"]["phase"] for pod in world.pods.values()] == ["Failed"]
    assert world.status["reason"] == "ChainerJobSuspended"


def test_scaling_an_elastic_job_in_and_out_at_once_is_no_restart() -> None:
    job = elastic_job()
    before = len(warnings(job))
    job.scale(1)
    work(job)
    for index, code in ((1, 143), (2, 137)):
        assert "deletionTimestamp" in job.pod(index)["metadata"]
        job.fails(f"{job.name}-worker-{index}", code)
    job.scale(3)
    work(job)
    assert job.status["phase"] == "Running"
    job.settle()
    job.run()
    job.settle()

    assert job.status["workersReady"] == "3/3"
    assert job.status["restarts"] == job.status.get("failures", 0) == 0
    assert warnings(job)[before:] == []
    assert "ExitedWithCode" not in job.reasons()


def test_scaling_a_chainer_job_in_and_out_at_once_is_no_restart() -> None:
    job = chainer_job()
    before = len(warnings(job))
    edit_workers(job, replicas=1)
    work(job)
    leaving = [name for name, pod in job.pods.items() if "deletionTimestamp" in pod["metadata"]]
    assert len(leaving) == 2
    job.fails(leaving[0], 143)
    edit_workers(job, replicas=3)
    work(job)
    assert job.status["phase"] == "Running"
    job.settle()
    job.run()
    job.settle()

    assert job.status["workersReady"] == "3/3"
    assert job.status["restarts"] == 0
    assert warnings(job)[before:] == []


def test_a_new_template_is_no_restart() -> None:
    job = chainer_job()
    before = len(warnings(job))
    template = copy.deepcopy(distributed()["spec"]["workerSets"]["ws0"]["template"])
    template["metadata"] = {"labels": {"team": "vision"}}
    edit_workers(job, template=template)
    uids = {pod["metadata"]["uid"] for pod in job.pods.values()}
    for _ in range(3):
        job.settle()
        job.run()
    job.settle()

    assert len({pod["metadata"]["uid"] for pod in job.pods.values()} - uids) == 3
    assert job.status["restarts"] == 0
    assert warnings(job)[before:] == []


@pytest.mark.parametrize("kind", ["elastic", "chainer"])
def test_a_pod_that_is_lost_after_an_edit_is_a_restart(kind: str) -> None:
    job: LaggingElastic | LaggingChainer
    job = elastic_job() if kind == "elastic" else chainer_job()
    for replicas in (1, 3):
        if isinstance(job, LaggingElastic):
            job.scale(replicas)
        else:
            edit_workers(job, replicas=replicas)
        job.settle()
        job.run()
        job.settle()
    (lost,) = [name for name in job.pods if name.endswith("-2")]
    job.somebody_deletes(lost)
    job.settle()

    assert job.status["restarts"] == 1
    assert job.status["phase"] == "Restarting"


@pytest.mark.parametrize("kind", ["elastic", "chainer"])
def test_a_pod_that_is_desired_again_before_its_deletion_stays(kind: str) -> None:
    job: LaggingElastic | LaggingChainer
    job = elastic_job() if kind == "elastic" else chainer_job()
    uids = {pod["metadata"]["uid"] for pod in job.pods.values()}
    for replicas in (1, 3):
        if isinstance(job, LaggingElastic):
            job.scale(replicas)
        else:
            edit_workers(job, replicas=replicas)
        job.catch_up(100)
        job.step()  # stores that the pods are asked to end, then that they are not
    job.settle()
    assert {pod["metadata"]["uid"] for pod in job.pods.values()} == uids
    (lost,) = [name for name in job.pods if name.endswith("-2")]
    job.somebody_deletes(lost)
    job.settle()

    assert job.status["restarts"] == 1


@pytest.mark.parametrize("kind", ["elastic", "chainer"])
def test_an_edit_of_a_finished_job_is_reported_once(kind: str) -> None:
    job: LaggingElastic | ChainerWorld
    if kind == "elastic":
        job = elastic_job(1)
        job.fails(f"{job.name}-worker-0", 0)
    else:
        job = ChainerWorld(plain())
        job.settle()
        job.run()
        job.settle()
        job.end(job.master_pod, 0)
    job.settle()
    assert job.status["phase"] == "Succeeded"
    assert "podRecords" not in job.status
    ended = {name: job.status[name] for name in ("phase", "reason", "message", "completionTime")}
    for _ in range(2):
        job.events.clear()
        job.job["metadata"]["generation"] += 1
        job.settle()
        (event,) = job.events
        assert (event.type, event.reason) == ("Warning", "JobFinished")
        assert "delete it and create it again" in event.message
    condition = job.conditions["Synced"]
    assert condition["message"] == event.message
    assert {name: job.status[name] for name in ended} == ended
