"""The status of jobs whose definition drops a part of it."""

from __future__ import annotations

import msgspec
import pytest

from traincrew.api.fullstatus import ANNOTATION, ProjectJob, annotation, pruned, restored

CONDITION = {"properties": {"type": {"type": "string"}, "status": {"type": "string"}}}
COUNTS = {"properties": {"active": {"type": "integer"}}}
SCHEMA = {
    "properties": {
        "conditions": {"type": "array", "items": CONDITION},
        "replicaStatuses": {"type": "object", "additionalProperties": COUNTS},
        "startTime": {"type": "string"},
        "free": {"additionalProperties": True},
        "list": {"type": "array"},
    }
}
STATUS = {
    "conditions": [{"type": "Running", "status": "True", "extra": 1}],
    "replicaStatuses": {"Worker": {"active": 2, "ready": 2}},
    "startTime": "2026-11-01T00:00:00Z",
    "free": {"a": {"b": 1}},
    "list": [{"a": 1}],
    "podRecords": {"worker-0": "x"},
}
STORED = {
    "conditions": [{"type": "Running", "status": "True"}],
    "replicaStatuses": {"Worker": {"active": 2}},
    "startTime": "2026-11-01T00:00:00Z",
    "free": {"a": {"b": 1}},
    "list": [{"a": 1}],
}


def test_what_a_definition_does_not_declare_is_dropped() -> None:
    assert pruned(STATUS, SCHEMA) == STORED


def test_a_schema_that_preserves_unknown_fields_prunes_those_it_declares() -> None:
    keeping = {**SCHEMA, "x-kubernetes-preserve-unknown-fields": True}

    assert pruned(STATUS, keeping) == {**STORED, "podRecords": {"worker-0": "x"}}
    assert pruned(STATUS, {"x-kubernetes-preserve-unknown-fields": True}) == STATUS
    assert pruned(STATUS, {}) == {}


def job(text: str, uid: str = "1") -> ProjectJob:
    """A job as an API server stores it."""
    metadata = {"name": "digits", "uid": uid, "annotations": {ANNOTATION: text}}
    document = {"metadata": metadata, "status": STORED}
    return msgspec.json.decode(msgspec.json.encode(document), type=ProjectJob)


def test_a_status_is_the_same_after_it_was_stored() -> None:
    text = annotation("1", STATUS, STORED)

    assert (job(text).status, job(text).stored_status) == (STATUS, STORED)
    assert msgspec.structs.replace(job(text), spec={"a": 1}).status == STATUS


def test_nothing_is_added_if_everything_is_stored() -> None:
    assert annotation("1", STORED, STORED) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"uid": "1", "status": 3}',
        '{"uid": 1, "status": {}}',
        '{"uid": "1", "status": ' + '{"a":' * 100_000 + "1" + "}" * 100_001,
        '{"status": {"phase": "Succeeded"}}',
        '{"uid": "2", "status": {"phase": "Succeeded"}}',
        '{"uid": "1", "status": {"phase": "\\ud800"}}',
    ],
    ids=lambda text: text[:40],
)
def test_annotations_of_others_add_nothing(text: str) -> None:
    assert job(text).status == STORED


def test_a_job_without_the_annotation_has_none() -> None:
    assert restored(None, "1") == {}
