"""Secrets."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(ResourceType("", "v1", "secrets", "Secret", significant_empty=("data",)),),
    selectable=FieldLabels.of("type"),
)
