"""Which pods come first where many are shown, and what the row of a rank behind says."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from cli.builders import ended, running, waiting
from cli.jobview.test_model import CHAINER, job, member
from traincrew.cli.display.text import moment
from traincrew.cli.jobview.attention import Attention, attention
from traincrew.cli.jobview.model import PodView, summary, view
from traincrew.cli.jobview.pods import known
from traincrew.cli.jobview.tables import table

CREATED = "2026-01-01T00:00:00Z"
BEHIND = "Rank 3 in pod slow is behind: it has done 12%, and the median of 4 ranks is 45%."
STOPPED = (
    "The program has reported no advance for 600 s: 41% since 09:00:00 UTC."
    " Rank 3 in pod slow stopped first, at 41%, and the median of 4 ranks is 42%."
)


def progressing(message: str, reason: str = "RankBehind", status: str = "False") -> dict[str, Any]:
    return {"type": "Progressing", "status": status, "reason": reason, "message": message}


def reports(*slowest: tuple[int, str, float]) -> dict[str, Any]:
    found = [{"rank": rank, "pod": pod, "percentage": done} for rank, pod, done in slowest]
    ranks = {"count": 4, "median": 45.5, "slowest": found}
    return {"lastUpdateTime": CREATED, "ranks": ranks}


def rows(*pods: Any, **status: Any) -> list[PodView]:
    seen = [known(pod) for pod in pods]
    return [pod for role in view(CHAINER, job(**status), seen).roles for pod in role.pods]


def both(**status: Any) -> dict[str, str]:
    pods = (
        member("slow", "workerset", running(), rank=1),
        member("well", "workerset", running(), rank=0),
    )
    return {pod.name: pod.behind for pod in rows(*pods, **status)}


def test_the_row_of_the_rank_that_is_behind_says_how_far_it_is_now() -> None:
    # A rank that is slower, but has just reported for the first time, is not yet behind.
    progress = reports((0, "well", 10), (3, "slow", 14.25))
    said = both(conditions=[progressing(BEHIND)], progress=progress)
    assert said == {"slow": "rank 3 is behind: 14.25%, the median is 45.5%", "well": ""}


def test_the_rank_that_stopped_first_is_named() -> None:
    condition = progressing(STOPPED, "NotAdvancing")
    said = both(conditions=[condition], progress=reports((3, "slow", 41)))
    assert said == {"slow": "rank 3 stopped first: 41%, the median is 45.5%", "well": ""}


def test_a_rank_that_is_behind_without_positions() -> None:
    assert both(conditions=[progressing(BEHIND)]) == {"slow": "rank 3 is behind", "well": ""}


@pytest.mark.parametrize(
    "condition",
    [
        progressing("No rank is behind any more.", "Advancing", "True"),
        progressing(BEHIND, status="True"),
        progressing("The program has reported no advance for 600 s: 41%.", "NotAdvancing"),
        progressing("Rank x in pod slow is behind"),
        progressing(""),
        {**progressing(BEHIND), "type": "Ready"},
    ],
)
def test_no_rank_is_behind_unless_the_condition_says_so(condition: dict[str, Any]) -> None:
    progress = reports((3, "slow", 12))
    assert both(conditions=[condition], progress=progress) == {"slow": "", "well": ""}


def test_of_the_pods_of_one_name_the_newest_is_behind() -> None:
    pods = [
        structs.replace(made, metadata=structs.replace(made.metadata, uid=f"uid-{second}"))
        for second in (9, 1)
        for made in [member("slow", "workerset", running(), created=second)]
    ]
    found = rows(*pods, conditions=[progressing(BEHIND)])
    assert [(pod.attempt, bool(pod.behind)) for pod in found] == [(1, False), (2, True)]


def test_what_needs_attention_comes_first() -> None:
    pods = [
        member("well", "workerset", running()),
        member("restarted", "workerset", running(restarts=2), rank=1),
        member("starting", "workerset", rank=2, phase="Pending"),
        member("slow", "workerset", running(), rank=3),
        member("image", "workerset", waiting("ErrImagePull", "no"), rank=4, phase="Pending"),
        member("failed", "workerset", ended(3), rank=5, phase="Failed"),
        member("unready", "workerset", running(), rank=6, phase="Unknown"),
    ]
    found = rows(*pods, conditions=[progressing(BEHIND)])
    assert [pod.name for pod in sorted(found, key=attention)] == [
        "image",
        "failed",
        "slow",
        "starting",
        "restarted",
        "unready",
        "well",
    ]


@pytest.mark.parametrize("tone", ["good", "busy", "bad", "plain"])
def test_pods_that_are_gone_come_last(tone: str) -> None:
    (pod,) = rows(member("slow", "workerset", running(restarts=1)))
    gone = structs.replace(pod, tone=tone)
    assert attention(gone, gone=True) == max(Attention)
    assert attention(gone) < max(Attention)
    assert attention(gone, gone=True, explains=True) == min(Attention)


def test_a_list_says_what_a_running_job_waits_for() -> None:
    now = moment(CREATED)
    assert now is not None
    slow = summary(CHAINER, job(phase="Running", conditions=[progressing(f"{BEHIND}\x1b[2J")]))
    well = summary(CHAINER, job(phase="Running"))
    assert (slow.warning, well.warning) == (f"RankBehind: {BEHIND}", "")
    header, first, second = table([slow, well], now, namespaces=False)
    assert first[header.index("REASON") :] == f"RankBehind: {BEHIND}"
    assert second.split()[-1] == "0s"
