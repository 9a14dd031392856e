"""A training of three ranks, one of which hangs: conditions, events, `watch`, `why`, and its end.

The ranks train by themselves. When one hangs the others go on, or stop soon after it as if they
waited for it. They print all the time, as programs do whose collective operations are stalled.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import traincrew.progress
from cli.anycluster import Embedded, embedded
from traincrew.engine.resources import CONFIG_MAPS, EVENTS, Resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.client import Client

__all__ = ["embedded"]

SECONDS = 120.0
IMAGE = "python:3.11"
ELASTIC_JOBS = Resource("elastic.pytorch.org", "v1alpha1", "elasticjobs", "ElasticJob")
MESSAGE = "Rank 2 in pod apart-worker-2 is behind: it has done "
PROGRAM = """
import os, sys, threading, time
from progress import report

import progress
progress.POSITION_INTERVAL = 2.5
rank, hangs_at, together = int(os.environ["RANK"]), float(sys.argv[1]), sys.argv[2] == "together"

def warn():
    while True:
        print("rank", rank, "stalled collective operation", flush=True)
        time.sleep(0.2)

threading.Thread(target=warn, daemon=True).start()
for step in range(1001):
    if rank == 2 and step / 10 >= hangs_at or together and step / 10 > hangs_at + 0.4:
        threading.Event().wait()
    report(step / 10)
    time.sleep(0.05)
"""


def job(name: str, hangs_at: float, *, together: bool, **fields: Any) -> dict[str, Any]:
    """Three workers without a launcher; the third one hangs at a percentage."""
    words = f"python3 /code/train.py {hangs_at} {'together' if together else 'apart'}"
    container = {
        "name": "elasticjob-worker",
        "image": IMAGE,
        "command": ["sh", "-c", f"RANK=${{HOSTNAME##*-}} WORLD_SIZE=3 exec {words}"],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    pod = {
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "code", "configMap": {"name": "code"}}],
    }
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {**fields, "replicaSpecs": {"Worker": {"replicas": 3, "template": {"spec": pod}}}},
    }


@pytest.fixture(scope="module")
def cluster(embedded: Embedded) -> Embedded:
    files = {
        "progress.py": Path(traincrew.progress.__file__).read_text(),
        "train.py": PROGRAM,
    }
    embedded.create({"metadata": {"name": "code"}, "data": files}, CONFIG_MAPS)
    return embedded


def until(
    cluster: Embedded, name: str, what: str, found: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    """Wait until the status of a job has something; return it."""

    async def look(client: Client) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        status: dict[str, Any] = {}
        while time.monotonic() < deadline:
            status = (await client.get(ELASTIC_JOBS, name, "default")).get("status") or {}
            if found(status):
                return status
            await asyncio.sleep(0.2)
        raise AssertionError(f"{what}: {status}")

    return cluster.ask(look)


def progressing(status: dict[str, Any]) -> dict[str, Any]:
    conditions = status.get("conditions", [])
    return next((each for each in conditions if each["type"] == "Progressing"), {})


def warnings(cluster: Embedded, name: str) -> dict[str, str]:
    """The messages of the Warning events of a job, by reason."""

    async def look(client: Client) -> dict[str, str]:
        found = (await client.list(EVENTS, "default"))["items"]
        return {
            each["reason"]: each["message"]
            for each in found
            if each["type"] == "Warning" and each["involvedObject"]["name"] == name
        }

    return cluster.ask(look)


def test_a_rank_that_hangs_while_others_go_on(cluster: Embedded) -> None:
    cluster.create(job("apart", 10, together=False), ELASTIC_JOBS)
    status = until(cluster, "apart", "rank 2 is behind", progressing)

    condition = progressing(status)
    assert (condition["status"], condition["reason"]) == ("False", "RankBehind")
    assert condition["message"].startswith(MESSAGE)
    assert status["phase"] == "Running"
    slowest = status["progress"]["ranks"]["slowest"][0]
    assert (slowest["rank"], slowest["pod"]) == (2, "apart-worker-2")
    assert slowest["percentage"] < 10

    found = json.loads(cluster("why", "apart", "-o", "json").stdout)
    assert found["cause"] == "rank-behind"
    assert "traincrew logs apart --role Worker --rank 2;" in found["fix"]
    log = cluster("logs", "apart", "--role", "Worker", "--rank", "2").stdout
    assert "rank 2 stalled" in log
    assert "rank 0" not in log
    with cluster.start("watch", "apart", "--timeout", "3s") as process:
        output, errors = process.communicate(timeout=90)
    shown = [line for line in output.splitlines() if f"warning: apart: {MESSAGE}" in line]
    assert len(shown) == 1, output + errors
    assert warnings(cluster, "apart") == {"RankBehind": condition["message"]}


def test_all_wait_for_one_rank_and_the_job_goes_on(cluster: Embedded) -> None:
    document = job("together", 20, together=True, progressDeadlineSeconds=8)
    cluster.create(document, ELASTIC_JOBS)
    status = until(
        cluster,
        "together",
        "it does not advance",
        lambda seen: progressing(seen).get("reason") == "NotAdvancing",
    )
    message = progressing(status)["message"]
    assert message.startswith("The program has reported no advance for 8 s: 20% since ")
    assert "Rank 2 in pod together-worker-2 stopped first, at 19.9%" in message
    assert (status["phase"], status.get("failures", 0)) == ("Running", 0)
    said = warnings(cluster, "together")
    assert said.pop("NotAdvancing") == message
    # Nothing makes the ranks begin together: the last one may have been behind at first.
    assert said.keys() <= {"RankBehind"}
    found = json.loads(cluster("why", "together", "-o", "json").stdout)
    assert found["cause"] == "not-advancing"
    assert "traincrew logs together --role Worker --rank 2;" in found["fix"]


def test_it_is_ended_if_only_reports_count(cluster: Embedded) -> None:
    policy = {"progressDeadlineSeconds": 8, "progressSource": "Reports", "backoffLimit": 0}
    cluster.create(job("ended", 20, together=True, **policy), ELASTIC_JOBS)
    status = until(cluster, "ended", "it ends", lambda seen: seen.get("phase") == "Failed")
    assert status["reason"] == "NoProgress"
    assert status["message"].startswith("The program has reported no advance for 8 s: 20% since ")
    assert "Rank 2 in pod ended-worker-2 stopped first, at 19.9%" in status["message"]
    assert progressing(status) == {}
