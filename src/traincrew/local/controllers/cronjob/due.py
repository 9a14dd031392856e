"""The time for which a CronJob is due to start a Job. Pure.

The rules are upstream's (`pkg/controller/cronjob/utils.go`): of all times since the last one, only
the latest is made up for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.local import cron
from traincrew.local.controllers.common import parse_time

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject
    from traincrew.local.cron import Schedule

MANY = 100
"""Missed times beyond which they are reported: a clock may be wrong."""
MARGIN = 0.1
"""Seconds after a scheduled time until it is looked at."""


class Due(Struct, frozen=True):
    """A time to start a Job, in seconds since the epoch.

    Attributes:
        at: The latest time since the last start; None if there is none.
        since: After which it was searched.
        missed: About how many times there were, if more than one.
    """

    at: float | None
    since: float
    missed: int = 0


def schedule_of(owner: AnyObject) -> Schedule:
    """Return the schedule of a CronJob, in its time zone; UTC by default.

    Raises:
        ValueError: Schedule or time zone cannot be read.
    """
    text, zone = owner.spec.get("schedule", ""), owner.spec.get("timeZone")
    return cron.parse(f"TZ={zone} {text}" if zone is not None and "TZ" not in text else text)


def latest(owner: AnyObject, schedule: Schedule, now: float, *, deadline: bool = True) -> Due:
    """Return the latest time for which a Job should have been started.

    Args:
        owner: The CronJob.
        schedule: Its schedule.
        now: Seconds since the epoch.
        deadline: Whether times before `startingDeadlineSeconds` are left out.

    Raises:
        ValueError: The schedule has no two times in a row, as of February 30.
    """
    since = parse_time(owner.status.get("lastScheduleTime") or owner.metadata.creation_timestamp)
    seconds = owner.spec.get("startingDeadlineSeconds")
    if deadline and seconds is not None:
        since = max(since, now - seconds)
    first = schedule.after(since)
    if first is not None and now < first:
        return Due(None, since)
    second = None if first is None else schedule.after(first)
    if first is None or second is None:
        raise ValueError("time difference between two schedules is less than 1 second")
    if now < second:
        return Due(first, since)
    distance = round(second - first)
    missed = int(now - first) // distance + 1
    # Distances vary, as from Friday to Monday: begin two before the last one, and count.
    found, following = None, schedule.after(first + (missed - 2) * distance)
    while following is not None and following <= now:
        found, following = following, schedule.after(following)
    return Due(found, since, missed)


def next_look(owner: AnyObject, schedule: Schedule, now: float) -> float | None:
    """Return when to look at a CronJob again, in seconds since the epoch; None for never."""
    try:
        due = latest(owner, schedule, now, deadline=False)
    except ValueError:
        start = now
    else:
        start = due.at if due.at is not None else now if due.missed else due.since
    following = schedule.after(start)
    return None if following is None else following + MARGIN
