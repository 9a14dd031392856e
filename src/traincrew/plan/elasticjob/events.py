"""Reasons and events of an ElasticJob, in the words of TorchElastic's controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.elasticjob.types import KIND, REASONS
from traincrew.api.reasons import Cause
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.replicas import reports
from traincrew.plan.shared.replicas.reports import Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.plan.shared.kind import Written
    from traincrew.plan.shared.model import ChildKey, Event

COMPONENT = "elastic-job-controller"
"""Source component of the events, as with TorchElastic's controller."""
WORDS = Words(
    kind=KIND,
    expected=frozenset(
        REASONS.word(each) for each in (Cause.PROGRAM, Cause.DEADLINE, Cause.BACKOFF_LIMIT)
    ),
    suspension=(lifecycle.SUSPENDED, "Resumed"),
    replaced="SettedPodTemplateRestartPolicy",
    waiting="WaitingForWorkers",
    pods="workers",
)


def written(what: Written, keys: Sequence[ChildKey]) -> list[Event]:
    """Return events for children that were created or deleted, or the job that was deleted."""
    return reports.written(KIND, what, keys)
