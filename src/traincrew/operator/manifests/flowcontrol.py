"""API priority and fairness: a share of the API server for the operator alone.

Without it the operator's requests wait together with those of all other service accounts (level
``workload-low``), its Lease included (Kubernetes documentation, "API Priority and Fairness").
"""

from __future__ import annotations

from typing import Any

from traincrew.operator.manifests.rbac import LEASE_NAMESPACE
from traincrew.operator.manifests.template import Document, Namespace, Value, When, text

_GROUP = "flowcontrol.apiserver.k8s.io"
_ENABLED = "priorityAndFairness.enabled"
_NAME = Value("name")
_LEASES = text(_NAME, "-leader-election")
# After upstream's schemas for nodes and leaders (100 to 800), before the one for service accounts
# (9000); `flowcontrol/bootstrap/default.go`.
_PRECEDENCE, _LEASE_PRECEDENCE = 1000, 850


def priority_and_fairness() -> list[When]:
    """Return the operator's priority level, and what belongs to it and to the level of leaders."""
    everything: Document = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "namespaces": ["*"],
        "clusterScope": True,
    }
    leases: Document = {
        "verbs": ["get", "create", "update"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": [LEASE_NAMESPACE],
    }
    return [
        When(_ENABLED, _level()),
        # The jobs of one namespace do not delay those of another.
        When(_ENABLED, _schema(_NAME, _NAME, _PRECEDENCE, everything, method="ByNamespace")),
        # Upstream's level for the leaders of the control plane.
        When(_ENABLED, _schema(_LEASES, "leader-election", _LEASE_PRECEDENCE, leases)),
    ]


def _level() -> Document:
    limited = {
        "nominalConcurrencyShares": Value("priorityAndFairness.nominalConcurrencyShares"),
        "lendablePercent": Value("priorityAndFairness.lendablePercent"),
        "limitResponse": {
            "type": "Queue",
            "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50},
        },
    }
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": _NAME},
        "spec": {"type": "Limited", "limited": limited},
    }


def _schema(
    name: Any, level: Any, precedence: int, requests: Document, *, method: str = "ByUser"
) -> Document:
    account = {
        "kind": "ServiceAccount",
        "serviceAccount": {"name": _NAME, "namespace": Namespace()},
    }
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": method},
            "rules": [{"subjects": [account], "resourceRules": [requests]}],
        },
    }
