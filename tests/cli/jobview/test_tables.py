"""The table of `traincrew list` on terminals of several widths."""

from datetime import UTC, datetime

import pytest

from traincrew.cli.commands.list import _fitting
from traincrew.cli.display.states import phase as phase_of
from traincrew.cli.jobview.model import JobSummary
from traincrew.cli.jobview.tables import table

NOW = datetime(2026, 1, 1, 0, 4, tzinfo=UTC)


def job(
    name: str, kind: str = "ChainerJob", phase: str = "Running", reason: str = ""
) -> JobSummary:
    return JobSummary(
        kind=kind,
        api_version="v1",
        namespace="default",
        name=name,
        phase=phase,
        reason=reason,
        message="0/4 workers running, imagenet-worker-0: Unschedulable" if reason else "",
        ready=3,
        desired=3,
        restarts=0,
        percentage=None,
        remaining_seconds=None,
        created_at="2026-01-01T00:00:00Z",
        started_at="",
        ended_at="",
        warning="",
    )


JOBS = [
    job("digits-mn"),
    job("imagenet", "ElasticJob", "Created", "WaitingForWorkers"),
    job("mnist", "MxJob", "Succeeded"),
]


def test_at_80_columns_nothing_but_reasons_is_shortened() -> None:
    lines = _fitting(JOBS, NOW, 80, namespaces=False)
    whole = list(table(JOBS, NOW, namespaces=False))
    assert lines == [whole[0], whole[1], whole[2][:79] + "…", whole[3]]


def test_at_40_columns_the_least_important_columns_are_left_out() -> None:
    assert _fitting(JOBS, NOW, 40, namespaces=False) == [
        "NAME       PHASE      READY  AGE  REASON",
        "digits-mn  Running    3/3    4m",
        "imagenet   Created    3/3    4m   Waiti…",
        "mnist      Succeeded  3/3    4m",
    ]
    assert _fitting(JOBS, NOW, 24, namespaces=False) == [
        "NAME       PHASE",
        "digits-mn  Running",
        "imagenet   Created",
        "mnist      Succeeded",
    ]


def test_phases_are_marked_on_a_terminal() -> None:
    phases = [phase_of(job.phase).sign.before(job.phase) for job in JOBS]
    assert _fitting(JOBS, NOW, 27, namespaces=False, phases=phases) == [
        "NAME       PHASE",
        "digits-mn  ▶ Running",
        "imagenet   ◌ Created",
        "mnist      ✓ Succeeded",
    ]


def test_jobs_of_one_name_can_be_told_apart() -> None:
    jobs = [job("digits"), job("digits", "ElasticJob")]
    assert _fitting(jobs, NOW, 40, namespaces=False) == [
        "KIND        NAME    PHASE    READY  AGE",
        "ChainerJob  digits  Running  3/3    4m",
        "ElasticJob  digits  Running  3/3    4m",
    ]


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_names_are_never_cut(columns: int) -> None:
    names = [f"a-very-long-name-of-a-training-job-with-the-number-{number}" for number in (1, 2)]
    lines = _fitting([job(name) for name in names], NOW, columns, namespaces=True)
    assert all(name in line for name, line in zip(names, lines[1:], strict=True))
