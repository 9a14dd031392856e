"""The body of a report, as Kubeflow Trainer defines it (KEP-2779). Pure.

{"trainerStatus": {"progressPercentage": 45, "estimatedRemainingSeconds": 600,
                   "metrics": [{"name": "loss", "value": "0.41"}],
                   "lastUpdatedTime": "2025-01-23T10:30:45Z"}}

And the body of ours with the position of a rank: {"rank": 3, "worldSize": 8, "percentage": 41.25}
"""

from __future__ import annotations

import re
from datetime import datetime  # noqa: TC003 - msgspec resolves it
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from traincrew.api.crd import MAX_METRICS
from traincrew.api.meta import format_time
from traincrew.engine.decoding import UndecodableError, decoded
from traincrew.plan.shared.progress import Metric, ReportedProgress

MAX_BODY = 1 << 16
"""Bytes of a body, as upstream."""
MAX_NAME = 128
MAX_VALUE = 64
"""Characters of the name and of the value of a metric."""
MAX_RANKS = 4096
"""Ranks from this number on are not followed."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class _Metric(Struct):
    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
    value: Annotated[str, Meta(min_length=1, max_length=MAX_VALUE)]


class _TrainerStatus(Struct, rename="camel"):
    progress_percentage: Annotated[int, Meta(ge=0, le=100)] | None = None
    estimated_remaining_seconds: Annotated[int, Meta(ge=0, lt=1 << 31)] | None = None
    metrics: Annotated[list[_Metric], Meta(max_length=MAX_METRICS)] | None = None
    last_updated_time: datetime | None = None


class _Request(Struct, rename="camel"):
    trainer_status: _TrainerStatus | None = None


class RankReport(Struct, rename="camel"):
    """The position of a rank.

    Attributes:
        rank: Its number in the job.
        percentage: How much of its work is done.
        world_size: The number of ranks, if it is known.
    """

    rank: Annotated[int, Meta(ge=0, lt=MAX_RANKS)]
    percentage: Annotated[float, Meta(ge=0, le=100)]
    world_size: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None


_DECODER = msgspec.json.Decoder(_Request)
_RANK_DECODER = msgspec.json.Decoder(RankReport)


class InvalidReportError(Exception):
    """A body that is not a report; the message names the field."""


def parse(body: bytes, now: datetime) -> ReportedProgress | None:
    """Return the report in a body; None if it says nothing of the training.

    The time in it is ignored: a pod's clock may be wrong.

    Args:
        body: The body of the request.
        now: When it was received.

    Raises:
        InvalidReportError: The body is not valid.
    """
    try:
        status = decoded(_DECODER, body).trainer_status
    except UndecodableError as error:
        raise InvalidReportError(str(error)) from error
    if status is None:
        return None
    found = status.metrics or []
    for index, metric in enumerate(found):
        if _UNPRINTABLE.search(metric.name) or _UNPRINTABLE.search(metric.value):
            place = f"$.trainerStatus.metrics[{index}]"
            raise InvalidReportError(f"Only printable characters are allowed - at `{place}`")
    metrics = {metric.name: metric.value for metric in found}
    if len(metrics) < len(found):
        raise InvalidReportError("Two metrics have the same name - at `$.trainerStatus.metrics`")
    return ReportedProgress(
        percentage=status.progress_percentage,
        estimated_remaining_seconds=status.estimated_remaining_seconds,
        metrics=tuple(Metric(name=name, value=value) for name, value in metrics.items()),
        last_update_time=format_time(now),
    )


def parse_rank(body: bytes) -> RankReport:
    """Return the position in a body.

    Raises:
        InvalidReportError: The body is not valid.
    """
    try:
        report = decoded(_RANK_DECODER, body)
    except UndecodableError as error:
        raise InvalidReportError(str(error)) from error
    if report.world_size is not None and report.rank >= report.world_size:
        raise InvalidReportError("Expected a number below `worldSize` - at `$.rank`")
    return report
