"""Checks for values that are each valid, but inconsistent with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.operator.manifests.values import Values


class Check(Struct, frozen=True):
    """One inconsistency of the values.

    Attributes:
        message: Names the values and the fix.
        wrong: Detects it in Python.
        condition: Detects it in a Helm template.
    """

    message: str
    wrong: Callable[[Values], bool]
    condition: str


CHECKS = (
    Check(
        message=(
            "replicas: several operators without an election would all act at once;"
            " set leaderElection.enabled to true, or replicas to 1"
        ),
        wrong=lambda values: values.replicas > 1 and not values.leader_election.enabled,
        condition="and (gt (int .Values.replicas) 1) (not .Values.leaderElection.enabled)",
    ),
    Check(
        message="progress.port: the metrics have this port; choose another one",
        wrong=lambda values: (
            values.progress.enabled and values.progress.port == values.metrics.port
        ),
        condition=(
            "and .Values.progress.enabled"
            " (eq (int .Values.progress.port) (int .Values.metrics.port))"
        ),
    ),
    Check(
        message=(
            "podLabels: the Deployment finds its pods by the label app; choose another for yours"
        ),
        wrong=lambda values: "app" in values.pod_labels,
        condition='hasKey .Values.podLabels "app"',
    ),
)
