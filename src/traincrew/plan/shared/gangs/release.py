"""Releases pods that have room while others have none, where no scheduler places them together.

That is the case as well if the pods name a scheduler that does not know their group.

Two jobs that each get half of their pods would keep them forever. So a job whose pods are placed in
part gives them back after a while, waits, and tries again. Both times grow with every release, up
to half an hour; the wait is different for every job, so that one of two finds all the room. It
follows from the UID of the job: another operator waits for the same time.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from traincrew.api.meta import parse_time
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from traincrew.plan.shared.views import ObservedPod

FIRST_SECONDS = 60
LONGEST_SECONDS = 1800
_ENOUGH = 5
"""Doublings after which the longest time is reached."""
SHORTEST_WAIT = 10.0
"""Seconds for which others can take the room at least."""


def patience(releases: int) -> int:
    """Return for how many seconds pods may be unschedulable, after some releases."""
    return min(FIRST_SECONDS << min(releases, _ENOUGH), LONGEST_SECONDS)


def wait(uid: str, releases: int) -> float:
    """Return the seconds until released pods are created again.

    Args:
        uid: UID of the job.
        releases: Number of releases, the last one included.
    """
    share = int(digest(uid, releases)[:8], 16) / 0xFFFFFFFF
    return SHORTEST_WAIT + share * patience(releases - 1)


def seconds_left(
    pods: Sequence[ObservedPod], needed: int, releases: int, now: datetime
) -> float | None:
    """Return the seconds until the pods are to be released; None if they are left alone.

    They are if all of them are placed, or none, or as many as the job needs.

    Args:
        pods: The pods.
        needed: Number of pods that have to be there together.
        releases: Number of releases before.
        now: The time.
    """
    placed = 0
    last: list[datetime] = []
    since: list[datetime] = []
    for pod in pods:
        if pod.metadata.deletion_timestamp is not None:
            return None  # something else is happening already
        if pod.spec.node_name:
            placed += 1
            last += [
                parse_time(each.last_transition_time)
                for each in pod.status.conditions
                if (each.type, each.status) == ("PodScheduled", "True")
                and each.last_transition_time
            ]
            continue
        since += [
            parse_time(each.last_transition_time or pod.metadata.creation_timestamp)
            for each in pod.status.conditions
            if (each.type, each.status, each.reason) == ("PodScheduled", "False", "Unschedulable")
        ]
    if not since or not placed or placed >= needed:
        return None
    # The last of them has just been placed where a whole gang is, one pod after the other.
    begin = max([min(since), *last])
    return (begin + timedelta(seconds=patience(releases)) - now).total_seconds()
