"""Usage of ResourceQuotas, shared by the API server's admission and the quota controller.

Pure functions over JSON documents, after ``k8s.io/kubernetes/pkg/quota/v1``.
"""

from __future__ import annotations

from traincrew.local.quotas.amounts import (
    Amounts,
    add,
    exceeded,
    increase,
    masked,
    negative,
    same,
    without_zeros,
)
from traincrew.local.quotas.evaluators import (
    charges,
    counted_resources,
    matching_names,
    missing_requests,
    quota_matches,
    total,
    usage,
)

__all__ = [
    "Amounts",
    "add",
    "charges",
    "counted_resources",
    "exceeded",
    "increase",
    "masked",
    "matching_names",
    "missing_requests",
    "negative",
    "quota_matches",
    "same",
    "total",
    "usage",
    "without_zeros",
]
