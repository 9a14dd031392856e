"""Pods."""

from __future__ import annotations

from traincrew.local.apiserver.kinds.strategy import (
    PROXY_VERBS,
    ResourceType,
    Strategy,
    Subresource,
)
from traincrew.local.apiserver.values.selectors import FieldLabels

__all__ = ["STRATEGY"]

STRATEGY = Strategy(
    resources=(
        ResourceType(
            "",
            "v1",
            "pods",
            "Pod",
            short_names=("po",),
            categories=("all",),
            status=True,
            generation="spec",
            subresources=(
                Subresource("attach", "PodAttachOptions", ("create", "get")),
                Subresource("binding", "Binding", ("create",)),
                Subresource("ephemeralcontainers", "Pod"),
                Subresource("eviction", "Eviction", ("create",), group="policy", version="v1"),
                Subresource("exec", "PodExecOptions", ("create", "get")),
                Subresource("log", "Pod", ("get",)),
                Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
                Subresource("proxy", "PodProxyOptions", PROXY_VERBS),
            ),
            returns_deleted=True,
        ),
    ),
    selectable=FieldLabels.of(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
        absent={"spec.hostNetwork": "false"},
    ),
)
