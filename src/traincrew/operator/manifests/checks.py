"""Values that are fine one by one, and not together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.operator.manifests.values import Values


class Check(Struct, frozen=True):
    """One mistake, and what to do about it.

    Attributes:
        message: Names the values and the fix.
        wrong: Finds it here.
        condition: Finds it in Helm.
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
        message=(
            "podLabels: the Deployment finds its pods by the label app; choose another for yours"
        ),
        wrong=lambda values: "app" in values.pod_labels,
        condition='hasKey .Values.podLabels "app"',
    ),
)
