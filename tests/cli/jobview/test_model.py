"""The view model of a job: plain data, whatever the API contains."""

from typing import Any

import msgspec
import pytest

from cli import builders
from cli.builders import ended, event, running, waiting
from traincrew.cli.display.objects import Event, Job
from traincrew.cli.display.text import moment
from traincrew.cli.jobview import model
from traincrew.cli.jobview.model import JobView, summary
from traincrew.cli.jobview.pods import known
from traincrew.cli.jobview.tables import age
from traincrew.plan.kinds import KINDS

CHAINER = next(kind for kind in KINDS if kind.definition.kind == "ChainerJob")
CREATED = "2026-01-01T00:00:00Z"


SPEC = {"master": {}, "workerSets": {"ws0": {"replicas": 2}}}


def job(spec: Any = None, **status: Any) -> Job:
    return builders.job(spec=SPEC if spec is None else spec, created=CREATED, **status)


def member(name: str, role: str, *states: dict[str, Any], rank: int = 0, created: int = 0,
           phase: str = "Running") -> Any:  # fmt: skip
    labels = {"chainerjob.kubeflow.org/role": role, "apps.kubernetes.io/pod-index": str(rank)}
    if role == "workerset":
        labels["chainerjob.kubeflow.org/workersetname"] = "ws0"
    made = builders.pod(name, phase, *states, conditions=[
        {"type": "Ready", "status": "True" if phase == "Running" else "False"}])  # fmt: skip
    meta = msgspec.structs.replace(
        made.metadata, labels=labels, creation_timestamp=f"2026-01-01T00:00:{created:02}Z"
    )
    return msgspec.structs.replace(made, metadata=meta)


def view(kind: Any, job: Job, pods: Any, *around: Any) -> JobView:
    return model.view(kind, job, [known(pod) for pod in pods], *around)


def test_roles_ranks_and_attempts() -> None:
    pods = [
        member("digits-master-b", "master", running(), created=9),
        member("digits-master-a", "master", ended(3), created=1, phase="Failed"),
        member("digits-workerset-ws0-1", "workerset", waiting("ErrImagePull", "no"), rank=1,
               phase="Pending"),
        member("digits-workerset-ws0-0", "workerset", running(restarts=2)),
    ]  # fmt: skip
    found = view(CHAINER, job(phase="Running", restarts=3), pods)
    master, workers = found.roles
    assert [(one.name, one.attempt, one.exit_code) for one in master.pods] == [
        ("digits-master-a", 1, 3),
        ("digits-master-b", 2, None),
    ]
    assert (master.desired, master.ready) == (1, 1)
    assert (workers.name, workers.desired, workers.ready) == ("ws0", 2, 1)
    assert [(one.rank, one.restarts) for one in workers.pods] == [(0, 2), (1, 0)]
    assert workers.pods[1].state == "image cannot be prepared"
    assert workers.pods[1].detail == "no"
    assert found.job.restarts == 3


def test_what_the_program_has_reported() -> None:
    report = {
        "percentage": 40,
        "estimatedRemainingSeconds": 90,
        "metrics": [{"name": "loss\x1b[2J", "value": "nan"}, {"name": "acc", "value": "0.5"}],
        "lastUpdateTime": CREATED,
    }
    found = view(CHAINER, job(progress=report), []).progress
    assert found is not None
    assert (found.percentage, found.remaining_seconds, found.at) == (40, 90, CREATED)
    assert found.metrics == {"loss": "nan", "acc": "0.5"}
    assert (found.advanced_at, found.ranks) == (None, None)
    assert view(CHAINER, job(), []).progress is None


def test_how_far_the_ranks_are() -> None:
    slowest = [{"rank": 3, "pod": "a\x1b[2J", "percentage": 41.25, "lastAdvanceTime": CREATED}]
    ranks = {"count": 8, "median": 45, "slowest": slowest}
    report = {"lastUpdateTime": CREATED, "lastAdvanceTime": CREATED, "ranks": ranks}
    found = view(CHAINER, job(progress=report), []).progress
    assert found is not None
    assert found.advanced_at == CREATED
    assert found.ranks is not None
    assert (found.ranks.count, found.ranks.median) == (8, 45)
    (rank,) = found.ranks.slowest
    assert (rank.rank, rank.pod, rank.percentage, rank.advanced_at) == (3, "a", 41.25, CREATED)


def test_it_is_plain_frozen_data_for_json() -> None:
    found = view(CHAINER, job(), [member("digits-master-a", "master", running())])
    with pytest.raises(AttributeError):
        found.job.phase = "Running"  # type: ignore[misc]
    document = msgspec.json.encode(found)
    assert msgspec.json.decode(document, type=JobView) == found
    assert b'"startedAt":"2026-01-01T00:00:01Z"' in document


def test_warnings_about_others_are_left_out() -> None:
    def about(kind: str, name: str, message: str = "no", count: int = 1) -> Event:
        return event(message, about=(kind, name), count=count)

    pods = [member("digits-master-a", "master", running())]
    found = view(
        CHAINER,
        job(),
        pods,
        [
            about("ChainerJob", "digits", "broken\x1b[31m\nline", 2),
            about("Pod", "digits-master-a"),
            about("StatefulSet", "digits-workerset-ws0"),
            about("Pod", "digits-of-another"),
            about("ChainerJob", "other"),
            about("StatefulSet", "digits-b-workerset-ws0"),
            about("ElasticJob", "digits"),
        ],
        [builders.workload("StatefulSet", "digits-workerset-ws0")],
    )
    assert [one.about for one in found.warnings] == [
        "ChainerJob digits",
        "Pod digits-master-a",
        "StatefulSet digits-workerset-ws0",
    ]
    assert found.warnings[0].count == 2
    assert found.warnings[0].message.isprintable()


@pytest.mark.parametrize(
    "counts",
    [
        {"master": {"ready": 1}, "ws0": {"ready": 2}},
        [{"ready": 1}, {"ready": 2}],
        {"master": {"ready": 3}, "ws0": {"ready": "x"}, "broken": 5},
    ],
)
def test_ready_pods_whatever_the_shape_of_the_status(counts: object) -> None:
    assert summary(CHAINER, job(replicaStatuses=counts)).ready == 3


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.definition.api_version)
@pytest.mark.parametrize(
    "spec",
    [{}, {"workerSets": 5}, {"replicaSpecs": "x"}, {"workers": []}, {"workers": {"replicas": "x"}}],
)
def test_an_invalid_spec_does_no_harm(kind: Any, spec: Any) -> None:
    row = summary(kind, job(spec))
    assert row.desired >= 0
    assert row.phase == "Pending"


@pytest.mark.parametrize(
    ("at", "text"),
    [("00:00:59", "59s"), ("00:01:59", "119s"), ("00:02:00", "2m"), ("02:00:01", "2h")],
)
def test_ages(at: str, text: str) -> None:
    now = moment(f"2026-01-01T{at}Z")
    assert now is not None
    assert age(CREATED, now) == text
    assert age("", now) == "?"


def test_the_exit_code_of_a_pod_is_that_of_its_program() -> None:
    states = [ended(1, "another"), ended(3, "chainer"), ended(143, "helper")]
    pod = builders.pod("digits-master-a", "Failed", *states, app=["helper", "chainer", "another"],
                       labels={"chainerjob.kubeflow.org/name": "digits",
                               "chainerjob.kubeflow.org/role": "master"})  # fmt: skip
    (role, *_) = view(CHAINER, job(phase="Failed"), [pod]).roles

    assert role.pods[0].exit_code == 3
    assert role.pods[0].state == "chainer: exit code 3"
