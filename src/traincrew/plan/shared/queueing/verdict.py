"""What the queue of a job demands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from traincrew.plan.shared.lifecycle import QueueStatus
    from traincrew.plan.shared.model import QueueWrite
    from traincrew.plan.shared.queueing.admission import Addition


class Verdict(Struct, kw_only=True):
    """What the queue of a job demands.

    Attributes:
        reason: Why the job has no pods; empty if it may have some.
        text: The same for people.
        asks: Whether the pods must be listed from the API server first.
        writes: What is done with the Workload.
        status: What the status says.
        added: What is added to the pods of each set.
        counts: How many pods of each set may run.
        unknown: Why nothing is known of the admission of a job that runs; no pods are created.
        failure: Why the job can never run with its admission.
        seconds: Seconds until the Workload is read again.
    """

    reason: str = ""
    text: str = ""
    asks: bool = False
    writes: list[QueueWrite] = field(default_factory=list)
    status: QueueStatus | None = None
    added: dict[str, Addition] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    unknown: str = ""
    failure: str = ""
    seconds: float | None = None
