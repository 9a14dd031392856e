"""Bindings: a scheduler assigns a pod to a node."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(ResourceType("", "v1", "bindings", "Binding", verbs=("create",)),),
)
