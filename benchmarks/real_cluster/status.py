"""What is read of a status: of the jobs of every kind, and of pods."""

from __future__ import annotations

from msgspec import Struct, field


class _Condition(Struct):
    type: str = ""
    status: str = ""


class _JobStatus(Struct):
    ready: int = 0


class Status(Struct, rename="camel"):
    """What is read of the status of a job or a pod."""

    phase: str = ""
    conditions: list[_Condition] = field(default_factory=list)
    replicated_jobs_status: list[_JobStatus] = field(default_factory=list)
