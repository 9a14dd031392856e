"""Statuses that mxnet-operator has stored."""

from __future__ import annotations

from typing import Any

import pytest

from traincrew.plan.mxjob import status

UNEXPECTED = "unexpected MxJob phase: Done"
"""What it stored of every ended job when it was restarted."""


def stored(phase: str, state: str = "", reason: str = "") -> dict[str, Any]:
    """Return a status in its form: every field, and null for what is empty."""
    word = state or "Running"
    return {
        "phase": phase,
        "reason": reason,
        "controlPaused": False,
        "conditions": None,
        "state": state,
        "replicaStatuses": [
            {"Mx_replica_type": kind, "state": word, "ReplicasStates": {word: count}}
            for kind, count in (("SCHEDULER", 1), ("SERVER", 2), ("WORKER", 3))
        ],
    }


@pytest.mark.parametrize(
    ("found", "phase", "state", "reason"),
    [
        (stored("Done", "Succeeded"), "Done", "Succeeded", None),
        (stored("Done", "Failed"), "Done", "Failed", "The job ended under another operator."),
        (stored("Failed", "Succeeded", UNEXPECTED), "Done", "Succeeded", None),
        (
            stored("Failed", "Failed", UNEXPECTED),
            "Done", "Failed", "The job ended under another operator.",
        ),
        (
            stored("Failed", reason="invalid job spec: unkonw job mode x"),
            "Failed", None, "invalid job spec: unkonw job mode x",
        ),
        (stored("Failed"), "Failed", None, "The job ended under another operator."),
    ],
)  # fmt: skip
def test_a_job_that_has_ended_stays_ended(
    found: dict[str, Any], phase: str, state: str | None, reason: str | None
) -> None:
    read = status.read(found)
    document = status.document(read, [])

    assert read.finished
    assert document["phase"] == phase
    assert document.get("state") == state
    assert document.get("reason") == reason
    assert document["controlPaused"] is False


@pytest.mark.parametrize("phase", ["", "Creating", "Running", "CleanUp"])
def test_a_job_that_has_not_ended_goes_on(phase: str) -> None:
    read = status.read(stored(phase))

    assert not read.finished
    assert status.document(read, [])["phase"] == "Creating"


@pytest.mark.parametrize("found", [{}, {"phase": "Running", "replicaStatuses": None}])
def test_an_empty_status(found: dict[str, Any]) -> None:
    assert not status.read(found).finished


def test_counts_of_replicas_are_kept() -> None:
    document = status.document(status.read(stored("Done", "Succeeded")), [])

    assert [
        (each["Mx_replica_type"], each["state"], each["ReplicasStates"])
        for each in document["replicaStatuses"]
    ] == [
        ("SCHEDULER", "Succeeded", {"Succeeded": 1}),
        ("SERVER", "Succeeded", {"Succeeded": 2}),
        ("WORKER", "Succeeded", {"Succeeded": 3}),
    ]


def test_what_is_written_is_read_again() -> None:
    document = status.document(status.read(stored("Done", "Failed")), [])

    assert status.document(status.read(document), []) == document
