"""Which objects `traincrew orphans` takes for orphaned."""

from __future__ import annotations

from typing import Any

import pytest

from predecessors.mxnet_leftovers import metadata
from traincrew.engine.resources import JOBS, PODS, SERVICES, Resource
from traincrew.predecessors.orphans import judge, labelled


@pytest.mark.parametrize(
    ("resource", "name", "role", "job"),
    [
        (JOBS, "a-b-worker-1kkf-2", "WORKER", "a-b"),
        (JOBS, "a-worker-1kkf-2-worker-1kkf-2", "WORKER", "a-worker-1kkf-2"),
        (SERVICES, "a-scheduler-1kkf-2", "SCHEDULER", "a"),
        (PODS, "a-server-1kkf-2-x7k2p", "SERVER", "a"),
        (SERVICES, "a-server-1kkf-2", "SERVER", ""),
        (JOBS, "a-server-1kkf-3", "SERVER", ""),
        (JOBS, "-server-1kkf-2", "SERVER", ""),
        (PODS, "a-server-1kkf-2", "SERVER", ""),
        (PODS, "a-server-1kkf-2-x-y", "SERVER", ""),
    ],
)
def test_names(resource: Resource, name: str, role: str, job: str) -> None:
    document = {
        "metadata": {**metadata(name, role, "1kkf", 2, "n"), "uid": "u", "resourceVersion": "1"}
    }
    found = labelled(resource, document)

    assert found is not None
    assert found.job == job
    assert bool(judge([found], []).orphans) == bool(job)


@pytest.mark.parametrize(
    "labels", [{"mxnet.mlkube.io": "yes"}, {"job_type": "MASTER"}, {"runtime_id": None}]
)
def test_other_labels(labels: dict[str, Any]) -> None:
    its = metadata("a-worker-r-0", "WORKER", "r", 0, "n")
    its["labels"] = {k: v for k, v in (its["labels"] | labels).items() if v is not None}

    assert labelled(JOBS, {"metadata": {**its, "uid": "u", "resourceVersion": "1"}}) is None
