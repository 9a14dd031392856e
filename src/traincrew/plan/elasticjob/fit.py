"""The workers of an ElasticJob that are given up as unschedulable, as stored in its status.

`traincrew.plan.elasticjob.scaling` decides from it.
"""

from __future__ import annotations

from msgspec import Struct

FITTED = "Fitted"
"""Condition type: fewer workers are created than desired, because some were unschedulable."""
GIVEN_UP = "WorkersGivenUp"
ALL_WANTED = "AllWorkersAskedFor"


class Fit(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """The workers that are given up: all state of `scaling`, so that any operator can continue."""

    given_up_indexes: str = ""
    """Formatted as a Job's ``completedIndexes``; see `traincrew.plan.shared.indexes`."""
    retry_index: int | None = None
    """The one of them whose pod is created nevertheless, to find out if it can be scheduled now."""
    last_given_up_time: str | None = None
    """When a worker was last found to be unschedulable."""
