"""Pods whose sshd does not answer, and what to do when ssh fails."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.transport import SSH
from traincrew.api.kinds.mpicluster.types import MASTER_CONTAINER, WORKER_CONTAINER
from traincrew.api.meta import parse_time
from traincrew.plan.mpicluster.templates import INIT, PORT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec
    from traincrew.plan.shared.views import ObservedPod

PATIENCE = timedelta(seconds=30)
"""For how long a container may run before its sshd answers; it takes a few seconds."""

_SSH = r"ssh: connect to host \S+ port \d+: "
_ADVICE = [
    (re.compile(pattern), advice)
    for pattern, advice in (
        (
            r"Permission denied \([^)]*publickey",
            "the pods have different keys or users: compare runAsUser, or delete the pods",
        ),
        (
            f"{_SSH}Connection refused",
            f"sshd of that pod does not run: its image's command has to be {INIT}",
        ),
        (
            f"{_SSH}(Connection|Operation) timed out",
            "pods of the cluster must reach each other at all ports: see NetworkPolicies",
        ),
        (
            r"Could not resolve hostname",
            "there is no such pod: compare the hostfile with kubectl get pods",
        ),
        (
            rf"{re.escape(INIT)}\b.*([Nn]o such file|not found)",
            f"the image has no sshd with {INIT}: use another image, or transport: exec",
        ),
    )
]
"""Messages of ssh or the kubelet, and the fix in at most 80 characters."""


def advice(message: str) -> str:
    """Return the fix for a message of ssh, Open MPI or the kubelet; empty for other messages."""
    return next((text for pattern, text in _ADVICE if pattern.search(message)), "")


def silence(spec: MPIClusterSpec, pod: ObservedPod, now: datetime) -> timedelta | None:
    """Return for how long the main container of a pod has been running without being ready.

    Returns:
        None if it is ready, does not run, or is ready by something else than sshd: the probe of
        its template, or with another transport.
    """
    if spec.transport != SSH or pod.ready or pod.metadata.deletion_timestamp is not None:
        return None
    for name, template in (
        (MASTER_CONTAINER, spec.master.template),
        (WORKER_CONTAINER, spec.workers.template),
    ):
        for status in pod.status.container_statuses:
            running = status.state.running
            if status.name != name or status.ready or running is None:
                continue
            if running.started_at is None or _has_own_probe(template, name):
                return None
            return now - parse_time(running.started_at)
    return None


def _has_own_probe(template: dict[str, Any], name: str) -> bool:
    containers = template["spec"].get("containers") or []
    return any("readinessProbe" in each for each in containers if each.get("name") == name)


def reason(spec: MPIClusterSpec, pod: ObservedPod, now: datetime) -> str | None:
    """Return the problem and fix if sshd of a pod does not answer; None if it still may."""
    found = silence(spec, pod, now)
    if found is None or found < PATIENCE:
        return None
    return (
        f"sshd does not answer on port {PORT}: the image's command has to be {INIT};"
        f" kubectl exec {pod.metadata.name} -- cat /tmp/sshd.log"
    )


def seconds_left(spec: MPIClusterSpec, pods: Iterable[ObservedPod], now: datetime) -> float | None:
    """Return the seconds until the next pod is considered to have no sshd."""
    found = (silence(spec, pod, now) for pod in pods)
    left = [(PATIENCE - each).total_seconds() for each in found if each is not None]
    return min((each for each in left if each > 0), default=None)


__all__ = ["PATIENCE", "advice", "reason", "seconds_left"]
