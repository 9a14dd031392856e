"""Plans of a CronJob by tables, and CronJobs on the embedded API server."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from local.controlplane import control_plane, template, timestamp
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import JOBS, RESOURCE_QUOTAS
from traincrew.local.controllers.common import format_time, parse_time
from traincrew.local.controllers.cronjob.due import latest, next_look, schedule_of
from traincrew.local.controllers.cronjob.plan import (
    CRON_JOBS,
    SCHEDULED,
    Plan,
    plan_cron_job,
    reference_to,
    with_started,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from local.controlplane import World

CREATED = "2026-11-26T02:00:30Z"
MINUTE = "*/1 * * * *"


def cron_job(status: dict[str, Any] | None = None, **spec: Any) -> AnyObject:
    meta = spec.pop("metadata", {})
    inner = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": template("Never")}}
    return msgspec.convert(
        {
            "metadata": {
                "name": "tick",
                "namespace": "default",
                "uid": "C",
                "creationTimestamp": CREATED,
            }
            | meta,
            "spec": {
                "schedule": MINUTE,
                "concurrencyPolicy": "Allow",
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
                "jobTemplate": inner,
            }
            | spec,
            "status": status or {},
        },
        AnyObject,
    )


def job(name: str, state: str = "", ended: str = "", start: str = "") -> AnyObject:
    """Return a Job of the CronJob; its state is Complete, Failed, going, or empty if it runs."""
    status: dict[str, Any] = {"startTime": start} if start else {}
    if state in {"Complete", "Failed"}:
        status["conditions"] = [{"type": state, "status": "True"}]
    if ended:
        status["completionTime"] = ended
    meta = {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": "7"}
    if state == "going":
        meta["deletionTimestamp"] = CREATED
    return msgspec.convert({"metadata": meta, "status": status}, AnyObject)


def active(*names: str) -> dict[str, Any]:
    """Return a status with active Jobs, and nothing due before 02:10."""
    references = [{"name": name, "namespace": "default", "uid": f"u-{name}"} for name in names]
    return {"active": references, "lastScheduleTime": "2026-11-26T02:10:00Z"}


def decide(subject: AnyObject, *jobs: AnyObject, at: str, gone: set[str] | None = None) -> Plan:
    return plan_cron_job(subject, jobs, gone or set(), parse_time(f"2026-11-26T{at}Z"))


def events(plan: Plan) -> list[str]:
    return [event.reason for event in plan.events]


def running(plan: Plan) -> list[str]:
    return [each["name"] for each in plan.status.get("active", ())]


# -- times ---------------------------------------------------------------------------------------


def moment(text: str) -> float:
    return parse_time(f"2026-11-{text}Z")


@pytest.mark.parametrize(
    ("spec", "last", "now", "due", "missed", "look"),
    [
        ({}, "", "26T02:00:45", None, 0, "26T02:01:00"),
        ({}, "", "26T02:01:00", "26T02:01:00", 0, "26T02:02:00"),
        ({}, "26T02:01:00", "26T02:01:30", None, 0, "26T02:02:00"),
        ({}, "26T02:01:00", "26T02:04:30", "26T02:04:00", 3, "26T02:05:00"),
        ({}, "26T02:01:00", "26T08:00:00", "26T08:00:00", 359, "26T08:01:00"),
        (
            {"schedule": "0 3 * * 1-5"},
            "20T03:00:00",
            "24T05:00:00",
            "24T03:00:00",
            2,
            "25T03:00:00",
        ),
        (
            {"schedule": "0 3 * * 1-5"},
            "19T03:00:00",
            "22T05:00:00",
            "20T03:00:00",
            0,
            "23T03:00:00",
        ),
        ({"schedule": "@every 90s"}, "26T02:01:07", "26T02:06:00", "26T02:05:37", 3, "26T02:07:07"),
        (
            {"schedule": "0 9 * * *", "timeZone": "Asia/Tokyo"},
            "",
            "26T03:00:00",
            None,
            0,
            "27T00:00:00",
        ),
        ({"startingDeadlineSeconds": 30}, "26T02:01:00", "26T02:04:45", None, 0, "26T02:05:00"),
        (
            {"startingDeadlineSeconds": 90},
            "26T02:01:00",
            "26T02:04:45",
            "26T02:04:00",
            0,
            "26T02:05:00",
        ),
    ],
)
def test_what_is_due(  # noqa: PLR0917 - the columns of the table
    spec: dict[str, Any], last: str, now: str, due: str | None, missed: int, look: str
) -> None:
    subject = cron_job({"lastScheduleTime": f"2026-11-{last}Z"} if last else {}, **spec)
    schedule = schedule_of(subject)

    found = latest(subject, schedule, moment(now))
    following = next_look(subject, schedule, moment(now))

    assert found.at == (None if due is None else moment(due))
    assert found.missed == missed
    assert following == pytest.approx(moment(look) + 0.1)


def test_what_can_never_be_due_is_not_looked_at_again() -> None:
    subject = cron_job(schedule="59 23 31 2 *")

    plan = decide(subject, at="02:30:00")

    assert events(plan) == ["InvalidSchedule"]
    assert plan.events[0].message == (
        "invalid schedule: 59 23 31 2 * : time difference between two schedules is less than "
        "1 second"
    )
    assert (plan.create, plan.requeue_at) == (None, None)


# -- starting ------------------------------------------------------------------------------------


def test_a_job_is_named_by_its_minute() -> None:
    plan = decide(cron_job(timeZone="Asia/Tokyo"), at="02:01:05")

    assert plan.create is not None
    minutes = int(parse_time("2026-11-26T02:01:00Z")) // 60
    assert plan.create["metadata"] == {
        "name": f"tick-{minutes}",
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {SCHEDULED: "2026-11-26T11:01:00+09:00"},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "name": "tick",
                "uid": "C",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert plan.create["spec"] == {"template": template("Never")}
    assert plan.requeue_at == pytest.approx(parse_time("2026-11-26T02:02:00.1Z"))
    made = {
        **plan.create,
        "metadata": plan.create["metadata"] | {"uid": "J", "resourceVersion": "9"},
    }
    status = with_started(plan.status, reference_to(made), plan.scheduled)
    assert status == {
        "active": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": f"tick-{minutes}",
                "namespace": "default",
                "resourceVersion": "9",
                "uid": "J",
            }
        ],
        "lastScheduleTime": "2026-11-26T02:01:00Z",
    }
    again = decide(cron_job(status), at="02:01:30")
    assert (again.create, again.delete, again.events) == (None, [], [])
    utc = decide(cron_job(), at="02:01:05").create
    assert utc is not None
    assert utc["metadata"]["annotations"] == {SCHEDULED: "2026-11-26T02:01:00Z"}


@pytest.mark.parametrize(
    ("policy", "starts", "replaced", "reasons"),
    [
        ("Allow", True, [], []),
        ("Forbid", False, [], ["JobAlreadyActive"]),
        ("Replace", True, ["tick-1"], []),
    ],
)
def test_policies_of_concurrency(
    policy: str, starts: bool, replaced: list[str], reasons: list[str]
) -> None:
    subject = cron_job(active("tick-1"), concurrencyPolicy=policy)

    plan = decide(subject, job("tick-1"), at="02:11:00")

    assert (plan.create is not None) == starts
    assert [item.metadata.name for item in plan.replace] == replaced
    assert running(plan) == ([] if replaced else ["tick-1"])
    assert events(plan) == reasons
    assert plan.requeue_at == pytest.approx(parse_time("2026-11-26T02:12:00.1Z"))


def test_a_suspended_one_starts_nothing_and_forgets_what_has_ended() -> None:
    subject = cron_job(active("tick-1"), suspend=True)

    plan = decide(subject, job("tick-1", "Failed"), at="02:30:00")

    assert (plan.create, plan.requeue_at) == (None, None)
    assert "active" not in plan.status
    assert [event.message for event in plan.events] == [
        "Saw completed job: tick-1, condition: Failed"
    ]


def test_one_that_is_being_deleted_starts_nothing() -> None:
    plan = decide(cron_job(metadata={"deletionTimestamp": CREATED}), at="02:30:00")

    assert (plan.create, plan.requeue_at, plan.events) == (None, None, [])


def test_a_start_that_comes_too_late_is_left_out() -> None:
    """A moment that is exactly as old as the deadline is over, as upstream."""
    meta = {"creationTimestamp": "2026-11-26T01:00:30Z"}
    subject = cron_job(schedule="0 * * * *", startingDeadlineSeconds=2, metadata=meta)

    assert decide(subject, at="02:00:01").create is not None
    late = decide(subject, at="02:00:02")
    assert (late.create, late.events) == (None, [])
    assert late.requeue_at == pytest.approx(parse_time("2026-11-26T03:00:00.1Z"))


def test_many_missed_times_are_reported_and_the_last_is_made_up_for() -> None:
    plan = decide(cron_job(), at="08:00:20")

    assert events(plan) == ["TooManyMissedTimes"]
    assert plan.create is not None
    assert plan.scheduled == parse_time("2026-11-26T08:00:00Z")


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"timeZone": "Nowhere"}, "UnknownTimeZone", 'invalid timeZone: "Nowhere": unknown time'),
        (
            {"schedule": "x"},
            "UnparseableSchedule",
            'unparseable schedule: "x" : expected exactly 5',
        ),
    ],
)
def test_a_schedule_that_cannot_be_read(spec: dict[str, Any], reason: str, message: str) -> None:
    plan = decide(cron_job(**spec), at="02:30:00")

    assert (plan.create, plan.requeue_at) == (None, None)
    assert events(plan) == [reason]
    assert plan.events[0].message.startswith(message)


def test_a_zone_in_the_schedule_is_read_and_reported() -> None:
    plan = decide(cron_job(schedule="TZ=Asia/Tokyo 30 11 * * *"), at="02:30:00")

    assert events(plan) == ["UnsupportedSchedule"]
    assert plan.scheduled == parse_time("2026-11-26T02:30:00Z")


# -- Jobs that exist -----------------------------------------------------------------------------


def test_active_jobs_end_go_missing_or_turn_up() -> None:
    subject = cron_job(active("a", "b", "c"))
    jobs = [job("a", "Complete", "2026-11-26T02:10:07Z"), job("b"), job("d")]

    plan = decide(subject, *jobs, at="02:10:30", gone={"u-c"})

    assert running(plan) == ["b"]
    assert plan.status["lastSuccessfulTime"] == "2026-11-26T02:10:07Z"
    assert [(event.reason, event.message) for event in plan.events] == [
        ("SawCompletedJob", "Saw completed job: a, condition: Complete"),
        ("UnexpectedJob", "Saw a job that the controller did not create or forgot: d"),
        ("MissingJob", "Active job went missing: c"),
    ]


def test_a_job_that_was_started_but_not_recorded_becomes_active() -> None:
    minutes = int(parse_time("2026-11-26T02:11:00Z")) // 60

    plan = decide(cron_job(active()), job(f"tick-{minutes}"), at="02:11:10")

    assert plan.create is None
    assert running(plan) == [f"tick-{minutes}"]
    assert plan.status["lastScheduleTime"] == "2026-11-26T02:11:00Z"


def test_the_last_success_never_goes_back() -> None:
    later = cron_job({"lastSuccessfulTime": "2026-11-26T02:09:00Z"}, suspend=True)

    plan = decide(later, job("a", "Complete", "2026-11-26T02:08:00Z"), at="02:10:30")

    assert plan.status["lastSuccessfulTime"] == "2026-11-26T02:09:00Z"


def test_the_history_has_its_limits() -> None:
    jobs = [
        *(
            job(f"s{number}", "Complete", start=f"2026-11-26T02:0{number}:00Z")
            for number in range(5)
        ),
        job("f1", "Failed", start="2026-11-26T02:01:00Z"),
        job("f2", "Failed"),
        job("gone", "going"),
    ]

    plan = decide(cron_job(suspend=True), *jobs, at="02:30:00")
    none = decide(cron_job(suspend=True, failedJobsHistoryLimit=0), *jobs, at="02:30:00")

    assert [item.metadata.name for item in plan.delete] == ["s0", "s1", "f1"]
    assert [item.metadata.name for item in none.delete] == ["s0", "s1", "f1", "f2"]


# -- on the embedded API server ------------------------------------------------------------------


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with control_plane() as running:
        yield running


def manifest(**spec: Any) -> dict[str, Any]:
    """A CronJob that was to start two minutes ago, and not again while a test runs."""
    moment = datetime.now(UTC) - timedelta(minutes=2)
    inner = {
        "schedule": f"{moment.minute} {moment.hour} * * *",
        "timeZone": "Etc/UTC",
        "jobTemplate": {"spec": {"template": template("Never")}},
    }
    return {"metadata": {"name": "tick"}, "spec": inner | spec}


async def due(world: World, minutes: int = 5) -> None:
    """Have the CronJob believe that its last start was minutes ago."""
    status = {"lastScheduleTime": timestamp(-60 * minutes)}
    await world.client.patch(
        CRON_JOBS, "tick", "default", patch={"status": status}, subresource="status"
    )


async def until_jobs(world: World, number: int) -> list[dict[str, Any]]:
    async def there() -> list[dict[str, Any]] | None:
        found = await world.list(JOBS)
        return (found or [{}]) if len(found) == number else None

    await world.until(there, f"{number} jobs")
    return await world.list(JOBS)


async def until_active(world: World, *names: str) -> dict[str, Any]:
    async def there() -> dict[str, Any] | None:
        found = await world.get(CRON_JOBS, "tick") or {}
        listed = [each["name"] for each in found["status"].get("active", ())]
        return found if listed == list(names) else None

    return await world.until(there, f"{names} active")


async def test_a_job_is_started_and_its_end_is_seen(world: World) -> None:
    await world.create(CRON_JOBS, manifest())
    assert await world.list(JOBS) == []
    await due(world)
    (started,) = await until_jobs(world, 1)
    name = started["metadata"]["name"]
    await until_active(world, name)
    assert 1 <= time.time() // 60 - int(name.rpartition("-")[2]) <= 4

    await world.restart()
    (pod,) = await world.until_pods(1)
    await world.finish(pod)
    found = await until_active(world)

    assert found["status"]["lastSuccessfulTime"]
    reasons = [reason for reason, _ in await world.events("tick")]
    assert reasons == ["SuccessfulCreate", "SawCompletedJob"]
    assert started["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    await world.client.delete(CRON_JOBS, "tick", "default")
    await until_jobs(world, 0)
    await world.until_pods(0)


async def test_a_job_is_replaced_and_one_that_is_deleted_is_missed(world: World) -> None:
    spec = manifest(concurrencyPolicy="Replace", suspend=True)
    created = await world.create(CRON_JOBS, spec)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "tick",
        "uid": created["metadata"]["uid"],
        "controller": True,
    }
    old = await world.create(
        JOBS,
        {
            "metadata": {"name": "tick-1", "ownerReferences": [owner]},
            "spec": {"template": template("Never")},
        },
    )
    reference = reference_to(old)
    await world.client.patch(
        CRON_JOBS,
        "tick",
        "default",
        patch={"status": {"active": [reference], "lastScheduleTime": timestamp(-300)}},
        subresource="status",
    )
    await world.client.patch(CRON_JOBS, "tick", "default", patch={"spec": {"suspend": False}})

    await world.until_gone(JOBS, "tick-1")
    (started,) = await until_jobs(world, 1)
    name = started["metadata"]["name"]
    await until_active(world, name)
    await world.client.patch(CRON_JOBS, "tick", "default", patch={"spec": {"suspend": True}})
    await world.client.delete(JOBS, name, "default")
    await until_active(world)

    reasons = [reason for reason, _ in await world.events("tick")]
    assert reasons[-1] == "MissingJob"
    assert reasons.count("SuccessfulDelete") == 1
    assert reasons.count("SuccessfulCreate") == 1


async def test_old_jobs_are_deleted_and_a_suspended_one_starts_none(world: World) -> None:
    await world.create(CRON_JOBS, manifest(failedJobsHistoryLimit=0))
    await due(world)
    (pod,) = await world.until_pods(1)
    patch = {"spec": {"suspend": True, "jobTemplate": {"spec": {"backoffLimit": 0}}}}
    await world.client.patch(CRON_JOBS, "tick", "default", patch=patch)
    (started,) = await until_jobs(world, 1)
    name = started["metadata"]["name"]
    await world.client.patch(JOBS, name, "default", patch={"spec": {"backoffLimit": 0}})

    await world.finish(pod, 1)

    await until_jobs(world, 0)
    await world.until_pods(0)
    await due(world)
    reasons = [reason for reason, _ in await world.events("tick")]
    assert reasons == ["SuccessfulCreate", "SuccessfulDelete"]


async def test_a_new_schedule_does_not_make_up_for_its_past(world: World) -> None:
    await world.create(CRON_JOBS, manifest(schedule="0 0 1 1 *"))
    status = {"lastScheduleTime": format_time(time.time() - 3600)}
    await world.client.patch(
        CRON_JOBS, "tick", "default", patch={"status": status}, subresource="status"
    )
    await world.client.patch(
        CRON_JOBS, "tick", "default", patch={"spec": {"schedule": "0 * * * *"}}
    )
    await world.create(
        JOBS, {"metadata": {"name": "other"}, "spec": {"template": template("Never")}}
    )
    await world.until_pods(1)

    assert len(await world.list(JOBS)) == 1


async def test_what_the_server_refuses_is_reported(world: World) -> None:
    await world.create(CRON_JOBS, manifest())
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/jobs.batch": "0"}}}
    await world.create(RESOURCE_QUOTAS, quota)
    await world.until_status(RESOURCE_QUOTAS, "none", hard={"count/jobs.batch": "0"})
    await due(world)

    async def refused() -> bool:
        return bool(await world.events("tick"))

    await world.until(refused)
    assert (await world.events("tick"))[0][0] == "FailedCreate"
    found = await world.get(CRON_JOBS, "tick") or {}
    assert "active" not in found["status"]
