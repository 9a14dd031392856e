"""Jobs of every kind that the real MultiKueue runs on another cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from .multikueue import QUEUE
from .queue_user import KINDS, PLURALS, WORKLOADS

if TYPE_CHECKING:
    from suites.shell import Document

    from .conftest import EmbeddedQueues

    Clusters = tuple[EmbeddedQueues, EmbeddedQueues]

pytestmark = pytest.mark.parametrize("kind", KINDS)


def sent(here: EmbeddedQueues, kind: str, name: str, script: str) -> Document:
    """A job that is to run on the other cluster."""
    job = here.job(kind, name, QUEUE, script)
    job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    return job


def suspend(here: EmbeddedQueues, kind: str, name: str, *, suspended: bool) -> None:
    """Suspend a job, or resume it."""
    path = "/spec/suspend" if kind == "ElasticJob" else "/spec/runPolicy"
    value = suspended if kind == "ElasticJob" else {"suspend": suspended}
    text = json.dumps([{"op": "add", "path": path, "value": value}])
    here.kubectl("patch", PLURALS[kind], name, "--type=json", f"--patch={text}")


def until_it_runs(there: EmbeddedQueues, kind: str, name: str) -> None:
    """Wait until the copy of a job is there, and runs."""
    of_kind = PLURALS[kind]

    def is_there() -> bool:
        return any(each["metadata"]["name"] == name for each in there.get(of_kind)["items"])

    there.until(f"{name} is there", is_there, 60)
    there.until_holds(kind, name, "Running")


def until_gone(there: EmbeddedQueues, kind: str, name: str) -> None:
    """Wait until nothing of the copy of a job is left."""

    def is_gone() -> bool:
        found = there.get(f"{PLURALS[kind]},{WORKLOADS},pods")["items"]
        return not any(name in each["metadata"]["name"] for each in found)

    there.until(f"nothing is left of {name}", is_gone, 60)


def test_a_job_runs_there_and_its_user_sees_it_here(clusters: Clusters, kind: str) -> None:
    here, there = clusters
    here.create(sent(here, kind, "sent", "sleep 4"))
    until_it_runs(there, kind, "sent")
    here.until_holds(kind, "sent", "Running")
    assert not here.pods("sent")
    assert here.stored(kind, "sent")["metadata"]["generation"] == 1
    mine, copied = here.workload("sent"), there.workload("sent")
    assert mine is not None
    assert copied is not None
    assert mine["metadata"]["name"] == copied["metadata"]["name"]
    here.until_holds(kind, "sent", "Succeeded")
    here.until("the Workload is finished", lambda: here.says("sent", "Finished") == "True", 60)
    until_gone(there, kind, "sent")
    here.delete(kind, "sent")


def test_a_job_waits_for_quota_there_and_survives_operators(clusters: Clusters, kind: str) -> None:
    here, there = clusters
    there.create(there.job("ElasticJob", "holder", QUEUE, "sleep 600"))
    there.until_holds("ElasticJob", "holder", "Running")
    here.create(sent(here, kind, "waits", "sleep 600"))

    def copied() -> bool:
        found = there.get(WORKLOADS)["items"]
        return any("waits" in each["metadata"]["name"] for each in found)

    there.until("the Workload is copied", copied, 60)
    for user in clusters:
        user.kill_operator()
        user.start_operator()
    assert not there.pods("waits")
    there.delete("ElasticJob", "holder")
    here.until_holds(kind, "waits", "Running", 90)
    assert there.pods("waits")
    here.delete(kind, "waits")
    until_gone(there, kind, "waits")


def test_a_job_that_is_suspended_here_ends_there_and_comes_back(
    clusters: Clusters, kind: str
) -> None:
    here, there = clusters
    here.create(sent(here, kind, "paused", "sleep 600"))
    here.until_holds(kind, "paused", "Running")
    suspend(here, kind, "paused", suspended=True)
    until_gone(there, kind, "paused")
    suspend(here, kind, "paused", suspended=False)
    until_it_runs(there, kind, "paused")
    here.delete(kind, "paused")
    until_gone(there, kind, "paused")
