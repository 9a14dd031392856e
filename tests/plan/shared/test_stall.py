"""When a job is considered to make no progress."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from traincrew.api.meta import CustomObject, format_time
from traincrew.api.runpolicy import CommonPolicy
from traincrew.plan.shared import stall
from traincrew.plan.shared.model import Confirm, LogKey, Observed, Output, OutputQuery
from traincrew.plan.shared.progress import ReportedProgress
from traincrew.plan.shared.ranks import RankProgress, RanksProgress
from traincrew.plan.shared.stall import Stalled, Wait
from traincrew.plan.shared.views import ObservedPod

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
POLICY = CommonPolicy(progress_deadline_seconds=600)


def at(seconds_ago: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds_ago))


def container(name: str = "main", ago: float | None = 1000, **fields: Any) -> dict[str, Any]:
    """The status of a container that started so long ago; None: that waits."""
    state = {"waiting": {}} if ago is None else {"running": {"startedAt": at(ago)}}
    return {"name": name, "state": state, **fields}


def pod(
    name: str, *containers: dict[str, Any], conditions: float = 1000, **status: Any
) -> dict[str, Any]:
    """A running pod whose conditions changed so long ago."""
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": at(2000)},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "lastTransitionTime": at(conditions)}],
            "containerStatuses": list(containers) or [container()],
            **status,
        },
    }


def key(name: str, restarts: int = 0) -> LogKey:
    return LogKey(name, f"uid-{name}", "main", restarts, previous=False)


def output(ago: float | None, read: float = 0) -> Output:
    """A container whose last output was so long ago (None: there is none), and when it was read."""
    written = None if ago is None else NOW - timedelta(seconds=ago)
    return Output(
        read_at=NOW - timedelta(seconds=read),
        known=True,
        stamp=format_time(written) if written else "",
        written_at=written,
    )


def unknown(ago: float | None = None) -> Output:
    return msgspec.structs.replace(output(ago), known=False)


def assess(
    *pods: dict[str, Any],
    outputs: dict[LogKey, Output] | None = None,
    confirmed: bool = True,
    policy: CommonPolicy = POLICY,
    progress: ReportedProgress | None = None,
) -> stall.Verdict | None:
    observed = Observed(
        job=CustomObject(),
        pods=tuple(msgspec.convert(list(pods), list[ObservedPod])),
        outputs=outputs or {},
        confirmed=confirmed,
        progress=progress,
    )
    return stall.assess(observed, policy, NOW)


def asked(*pods: dict[str, Any], outputs: dict[LogKey, Output] | None = None) -> list[str]:
    """The pods whose output is to be read, in order."""
    verdict = assess(*pods, outputs=outputs)
    assert isinstance(verdict, OutputQuery), verdict
    assert verdict.since == NOW - timedelta(seconds=600)
    return [each.pod for each in verdict.keys]


# -- status changes -------------------------------------------------------------------------------


def test_without_a_deadline_nothing_is_assessed() -> None:
    assert assess(pod("a"), policy=CommonPolicy()) is None


@pytest.mark.parametrize(
    "changed",
    [
        pod("a", conditions=100),
        pod("a", container(ago=100)),
        pod("a", container(lastState={"terminated": {"finishedAt": at(100)}})),
        pod("a", container(), {"name": "b", "state": {"terminated": {"finishedAt": at(100)}}}),
        pod("a", initContainerStatuses=[{"state": {"terminated": {"finishedAt": at(100)}}}]),
        pod("a") | {"metadata": {"name": "a", "uid": "uid-a", "creationTimestamp": at(100)}},
    ],
)
def test_no_output_is_read_while_a_status_has_changed_recently(changed: dict[str, Any]) -> None:
    assert assess(changed) == Wait(500)
    assert assess(pod("0"), changed, pod("z")) == Wait(500)


def test_a_pod_that_has_ended_or_is_being_deleted_is_a_change_too() -> None:
    ended = pod("b", {"name": "m", "state": {"terminated": {"finishedAt": at(50)}}}, phase="Failed")
    assert assess(pod("a"), ended) == Wait(550)
    leaving = pod("b")
    leaving["metadata"]["deletionTimestamp"] = at(20)
    assert assess(pod("a"), leaving) == Wait(580)


def test_only_running_containers_of_running_pods_are_asked() -> None:
    pending = pod("b", container(ago=None), phase="Pending")
    leaving = pod("c")
    leaving["metadata"]["deletionTimestamp"] = at(900)
    sidecar = pod("d", initContainerStatuses=[container("proxy")])
    done = pod("e", {"name": "m", "state": {"terminated": {"finishedAt": at(900)}}}, container())
    assert asked(pod("a"), pending, leaving, sidecar, done) == ["a", "d", "e"]


@pytest.mark.parametrize(
    "state",
    [
        pod("b", container(ago=None)),
        pod("b", {"name": "main"}),
        pod("b") | {"status": {"phase": "Running", "containerStatuses": []}},
    ],
    ids=["crash loop", "no state", "no container"],
)
def test_nothing_is_decided_while_a_container_waits_or_is_unknown(state: dict[str, Any]) -> None:
    assert assess(pod("a"), state, outputs={key("a"): output(None)}) is None


def test_a_job_without_running_pods_is_not_assessed() -> None:
    assert assess() is None
    assert assess(pod("a", phase="Pending")) is None


# -- outputs --------------------------------------------------------------------------------------


def test_all_pods_are_asked_the_liveliest_first() -> None:
    assert asked(pod("a"), pod("b"), pod("c")) == ["a", "b", "c"]
    before = {key("b"): output(900, read=300), key("c"): output(700, read=100)}
    assert asked(pod("a"), pod("b"), pod("c"), outputs=before) == ["c", "b", "a"]


def test_one_recent_output_is_enough() -> None:
    outputs = {key("a"): output(None), key("b"): output(10)}
    assert assess(pod("a"), pod("b"), pod("c"), outputs=outputs) == Wait(590)


def test_an_output_known_from_before_postpones_the_next_request() -> None:
    assert assess(pod("a"), outputs={key("a"): output(200, read=150)}) == Wait(400)


def test_output_exactly_as_old_as_the_deadline_is_too_old() -> None:
    assert assess(pod("a"), outputs={key("a"): output(600)}) == Stalled(600)
    assert assess(pod("a"), outputs={key("a"): output(599.5)}) == Wait(0.5)


def test_every_container_must_be_known_to_be_silent_now() -> None:
    silent = {key("a"): output(None), key("b"): output(900)}
    assert assess(pod("a"), pod("b"), outputs=silent) == Stalled(600)
    assert asked(pod("a"), pod("b"), outputs={**silent, key("b"): output(900, read=1)})
    assert asked(pod("a"), pod("b", container(restartCount=1)), outputs=silent)
    other = {key("a"): output(None), key("b")._replace(uid="other"): output(900)}
    assert asked(pod("a"), pod("b"), outputs=other)


def test_output_that_cannot_be_read_is_not_silence() -> None:
    outputs = {key("a"): output(None), key("b"): unknown(900)}
    assert assess(pod("a"), pod("b"), outputs=outputs) == Wait(30)
    short = CommonPolicy(progress_deadline_seconds=5)
    assert assess(pod("a"), pod("b"), outputs=outputs, policy=short) == Wait(5)
    earlier = {key("a"): msgspec.structs.replace(unknown(), read_at=NOW - timedelta(seconds=30))}
    assert asked(pod("a"), outputs=earlier) == ["a"]


def test_the_pods_are_listed_before_anything_is_ended() -> None:
    assert assess(pod("a"), outputs={key("a"): output(None)}, confirmed=False) == Confirm()


def test_clocks_that_are_ahead_of_ours() -> None:
    assert assess(pod("a", conditions=-3600)) == Wait(600)
    assert assess(pod("a"), outputs={key("a"): output(-60)}) == Wait(600)


def test_the_message_says_for_how_long() -> None:
    assert Stalled(600).message == "No output and no status change of any pod for 600 s"


# -- the last line --------------------------------------------------------------------------------


def line(ago: float) -> str:
    return at(ago).replace("Z", ".123456789Z step 17: loss 0.")


def test_the_time_of_a_line_is_that_of_the_node() -> None:
    read = stall.output_after(None, line(100), NOW)
    assert read.known
    assert read.written_at == NOW - timedelta(seconds=100) + timedelta(microseconds=123456)
    other_zone = stall.output_after(None, "2026-01-31T13:00:00.5+02:00 x", NOW)
    assert other_zone.written_at == datetime(2026, 1, 31, 11, 0, 0, 500000, tzinfo=UTC)
    cut_off = stall.output_after(None, "2026-01-31T11:00:00Z", NOW)
    assert cut_off.written_at == datetime(2026, 1, 31, 11, tzinfo=UTC)


def test_a_time_ahead_of_ours_is_that_of_its_first_reading() -> None:
    first = stall.output_after(None, line(-3600), NOW)
    assert first.written_at == NOW
    later = NOW + timedelta(seconds=600)
    same = stall.output_after(first, line(-3600), later)
    assert (same.written_at, same.read_at) == (NOW, later)
    newer = stall.output_after(same, line(-3700), later)
    assert newer.written_at == later


def test_no_line_at_all_is_known_silence() -> None:
    first = stall.output_after(None, "", NOW)
    assert first.known
    assert first.written_at is None
    assert stall.output_after(first, "", NOW).written_at is None


def test_a_log_that_became_empty_was_rotated_and_so_was_written_to() -> None:
    before = stall.output_after(None, line(300), NOW)
    later = NOW + timedelta(seconds=400)
    rotated = stall.output_after(before, "", later)
    assert rotated.written_at == later
    still = stall.output_after(rotated, "", later + timedelta(seconds=600))
    assert still.written_at == later


@pytest.mark.parametrize("text", [None, "unable to retrieve container logs for containerd://x"])
def test_what_is_not_a_line_is_unknown_and_keeps_what_was_known(text: str | None) -> None:
    assert not stall.output_after(None, text, NOW).known
    before = stall.output_after(None, line(300), NOW)
    later = NOW + timedelta(seconds=400)
    failed = stall.output_after(before, text, later)
    assert (failed.known, failed.written_at, failed.read_at) == (False, before.written_at, later)
    again = stall.output_after(failed, line(300), later)
    assert (again.known, again.written_at) == (True, before.written_at)


# -- reports --------------------------------------------------------------------------------------


REPORTS = CommonPolicy(progress_deadline_seconds=600, progress_source="Reports")
SLOWEST = RanksProgress(
    count=8,
    median=41.4,
    slowest=tuple(
        RankProgress(rank=rank, pod=f"w-{rank}", percentage=percentage, last_advance_time=at(700))
        for rank, percentage in ((3, 41.2), (0, 41.4))
    ),
)


def report(advanced: float, updated: float = 1, **fields: Any) -> ReportedProgress:
    """A report that was received and has advanced so many seconds ago."""
    return ReportedProgress(
        **{"percentage": 45, **fields}, last_update_time=at(updated), last_advance_time=at(advanced)
    )


def test_a_report_that_advances_is_a_sign_of_life() -> None:
    silent = {key("a"): output(2000)}
    assert assess(pod("a"), outputs=silent, progress=report(100)) == Wait(500)
    assert assess(pod("a"), outputs=silent, progress=report(100), policy=REPORTS) == Wait(500)
    found = assess(pod("a"), outputs=silent, progress=report(700))
    assert isinstance(found, Stalled)
    assert found.message == "No output and no status change of any pod for 600 s"


def test_a_program_that_prints_is_ended_by_its_reports_if_so_wanted() -> None:
    prints = {key("a"): output(1)}
    assert assess(pod("a"), outputs=prints, progress=report(700)) == Wait(599)
    assert assess(pod("a"), outputs=prints, progress=report(700), policy=REPORTS) == Stalled(
        600, report(700), by_reports=True
    )
    unconfirmed = assess(pod("a"), progress=report(700), policy=REPORTS, confirmed=False)
    assert unconfirmed == Confirm(), "and its output is not read at all"


@pytest.mark.parametrize(
    "progress",
    [
        None,
        report(1500, updated=1500),  # of the attempt before
        report(700, percentage=100),  # what follows the training has no percentage
    ],
)
def test_without_a_report_of_this_attempt_output_counts(progress: ReportedProgress | None) -> None:
    prints = {key("a"): output(1)}
    assert assess(pod("a"), outputs=prints, progress=progress, policy=REPORTS) == Wait(599)
    silent = {key("a"): output(2000)}
    found = assess(pod("a"), outputs=silent, progress=progress, policy=REPORTS)
    assert isinstance(found, Stalled)
    assert found.message == "No output and no status change of any pod for 600 s"


def test_a_status_that_changes_counts_with_reports_too() -> None:
    changed = pod("a", conditions=100)
    assert assess(changed, progress=report(700), policy=REPORTS) == Wait(500)


def test_a_container_that_waits_is_not_ended_by_reports() -> None:
    waits = pod("b", container(ago=None))
    assert assess(pod("a"), waits, progress=report(700), policy=REPORTS) is None


def test_the_message_names_the_rank_that_the_others_wait_for() -> None:
    first = "Rank 3 in pod w-3 stopped first, at 41.2%, and the median of 8 ranks is 41.4%"
    progress = report(700, ranks=SLOWEST)
    assert Stalled(600, progress, by_reports=True).message == (
        f"The program has reported no advance for 600 s: 45% since 11:48:20 UTC. {first}"
    )
    assert Stalled(600, progress).message == (
        f"No output and no status change of any pod for 600 s. {first}"
    )
