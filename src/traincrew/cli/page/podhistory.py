"""The life of a pod for the timeline: created, scheduled, started, ready, ended, deleted.

Pure. A pod's status knows the last run of each container only, so a life is kept and extended by
each state that is observed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from traincrew.cli.display.podstates import was_stopped
from traincrew.cli.display.programs import program

if TYPE_CHECKING:
    from traincrew.cli.display.objects import ContainerState, Pod

MOST_RUNS = 50
"""Runs that are kept of one pod; of a container that crashes all the time, the last ones."""


class Run(Struct, frozen=True, rename="camel"):
    """One run of a pod's main container.

    Attributes:
        started_at: RFC 3339.
        ended_at: None while it runs.
        exit_code: None while it runs.
        stopped: Whether it ended because its pod was deleted.
    """

    started_at: str
    ended_at: str | None = None
    exit_code: int | None = None
    stopped: bool = False


class PodHistory(Struct, frozen=True, rename="camel"):
    """What has happened to a pod, each with its time (RFC 3339) if it has happened."""

    created_at: str
    scheduled_at: str | None = None
    ready_at: str | None = None
    gone_at: str | None = None
    runs: tuple[Run, ...] = ()


def pod_history(
    pod: Pod, before: PodHistory | None = None, gone_at: str | None = None
) -> PodHistory:
    """Return the life of a pod, given what was known of it before.

    Args:
        pod: Its current state; when it is gone, the last one.
        before: Its life until now.
        gone_at: When it was deleted, if it was.
    """
    life = before or PodHistory(pod.metadata.creation_timestamp)
    since = {one.type: one.last_transition_time for one in pod.status.conditions if _true(one)}
    runs = {run.started_at: run for run in life.runs}
    main = program(pod)
    if main is not None:
        for run in (_run(main.last_state), _run(main.state)):
            if run is not None:
                runs[run.started_at] = run
        ended = main.state.terminated
        if ended is not None and ended.started_at in runs and was_stopped(pod, ended.exit_code):
            runs[ended.started_at] = structs.replace(runs[ended.started_at], stopped=True)
    ordered = tuple(runs[start] for start in sorted(runs))[-MOST_RUNS:]
    return structs.replace(
        life,
        scheduled_at=life.scheduled_at or since.get("PodScheduled"),
        ready_at=since.get("Ready") or life.ready_at,
        gone_at=gone_at or life.gone_at,
        runs=ordered,
    )


def _true(condition: object) -> bool:
    return getattr(condition, "status", "") == "True"


def _run(state: ContainerState) -> Run | None:
    if state.running is not None and state.running.started_at:
        return Run(state.running.started_at)
    ended = state.terminated
    if ended is not None and ended.started_at:
        return Run(ended.started_at, ended.finished_at, ended.exit_code)
    return None
