"""The status of an ElasticJob."""

from __future__ import annotations

from typing import ClassVar

from traincrew.plan.elasticjob.fit import FITTED, Fit
from traincrew.plan.shared.replicas.counts import ReplicasStatus


class ElasticJobStatus(ReplicasStatus, rename="camel", kw_only=True, omit_defaults=True):
    """``status`` of an ElasticJob."""

    more_conditions: ClassVar[tuple[str, ...]] = (FITTED,)

    min_replicas: int = 0
    max_replicas: int = 0
    """Limits that the workers' launchers have; 0 as long as no worker was to be created."""
    fit: Fit | None = None
    """Workers given up because they could not be scheduled."""
    last_scale_in_time: str = ""
    """When workers were last asked to terminate because replicas was lowered."""
