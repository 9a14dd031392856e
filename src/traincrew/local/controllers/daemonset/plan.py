"""Plan of a DaemonSet: (set, nodes, its pods, revisions, now) -> pods, status, events. Pure.

The rules are upstream's (`pkg/controller/daemon/daemon_controller.go`): each node that fits has one
pod, and two for a moment while an update surges. Pods that have ended are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import parse_time
from traincrew.local.controllers.daemonset.backoff import Backoff
from traincrew.local.controllers.daemonset.history import obsolete
from traincrew.local.controllers.daemonset.nodes import (
    fit,
    is_updated,
    pod_of,
    target_of,
)
from traincrew.local.controllers.daemonset.rollout import (
    limits_of,
    on_node,
    replace,
    surge,
)
from traincrew.local.controllers.revisions import REVISION_LABEL
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.daemonset.history import History
    from traincrew.local.controllers.daemonset.nodes import Node

BURST = 250
"""Pods created or deleted in one reconcile (upstream `BurstReplicas`)."""


class Plan(Struct):
    """The writes to carry out.

    Attributes:
        create: Pods to create.
        delete: Pods to delete.
        obsolete: Revisions beyond the history limit.
        status: The whole new status.
        events: Events to record.
        backoff: Argument of the next call.
        requeue_at: Seconds since the epoch, or None.
    """

    create: list[dict[str, Any]] = field(default_factory=list)
    delete: list[AnyObject] = field(default_factory=list)
    obsolete: list[AnyObject] = field(default_factory=list)
    status: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    backoff: Backoff = Backoff()
    requeue_at: float | None = None


def plan_daemon_set(
    owner: AnyObject,
    nodes: Iterable[Node],
    pods: Sequence[AnyObject],
    history: History,
    *,
    now: float,
    backoff: Backoff,
) -> Plan:
    """Plan the next step of a DaemonSet that is not being deleted.

    Args:
        owner: The DaemonSet.
        nodes: All nodes of the cluster.
        pods: All pods it controls.
        history: Its revisions.
        now: Seconds since the epoch.
        backoff: Result of the call before.

    Raises:
        ValueError: A limit of the rolling update is neither a number nor a percentage.
    """
    return _Decision(owner, nodes, pods, history, now=now, backoff=backoff).make()


class _Decision:
    """The state of one call of `plan_daemon_set`."""

    def __init__(
        self,
        owner: AnyObject,
        nodes: Iterable[Node],
        pods: Sequence[AnyObject],
        history: History,
        *,
        now: float,
        backoff: Backoff,
    ) -> None:
        self.owner, self.history, self.now, self.pods = owner, history, now, pods
        spec = (owner.spec.get("template") or {}).get("spec") or {}
        self.fits = {
            node.name: fit(spec, node) for node in sorted(nodes, key=lambda node: node.name)
        }
        self.desired = [name for name, each in self.fits.items() if each.runs]
        self.min_ready = int(owner.spec.get("minReadySeconds") or 0)
        strategy = owner.spec.get("updateStrategy") or {}
        self.rolling = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        self.limits = limits_of(owner, len(self.desired))
        self.surges = self.rolling and limits_of(owner, 1).surge > 0
        self.by_node: dict[str, list[AnyObject]] = {}
        for pod in sorted(pods, key=_age):
            # One that has ended and waits for its finalizers is nobody's concern.
            if (node := target_of(pod)) and not (
                podutil.is_finished(pod) and podutil.is_terminating(pod)
            ):
                self.by_node.setdefault(node, []).append(pod)
        generation = int(owner.status.get("observedGeneration") or 0)
        known = backoff if backoff.generation == generation else Backoff(generation)
        self.plan = Plan(backoff=known)
        self.create: list[str] = []

    def make(self) -> Plan:
        """Have one pod on each node, then go on with the update, then report."""
        self._keep_one_each()
        if self.rolling and not self.create and not self.plan.delete:
            self._update()
        self.plan.delete = self.plan.delete[:BURST]
        self.plan.create = [
            pod_of(self.owner, node, self.history.current) for node in self.create[:BURST]
        ]
        in_use = {pod.metadata.labels.get(REVISION_LABEL, "") for pod in self.pods}
        self.plan.obsolete = obsolete(self.owner, self.history, in_use)
        self.plan.status = self._status()
        return self.plan

    # -- pods --------------------------------------------------------------------------------

    def _keep_one_each(self) -> None:
        for name, each in self.fits.items():
            there = self.by_node.get(name, [])
            if each.runs and not there:
                self.create.append(name)
            elif each.stays:
                self._tend(name, there, runs=each.runs)
            else:
                self.plan.delete += [pod for pod in there if not podutil.is_terminating(pod)]
        # No scheduler binds a pod to a node that is gone, and nobody else deletes it.
        self.plan.delete += [
            pod
            for name, there in self.by_node.items()
            for pod in there
            if name not in self.fits
            and not pod.spec.get("nodeName")
            and not podutil.is_terminating(pod)
        ]

    def _tend(self, node: str, pods: Iterable[AnyObject], *, runs: bool) -> None:
        """Delete pods that have ended, or are too many, on a node where one may be."""
        going_on = []
        for pod in pods:
            if podutil.is_terminating(pod):
                continue
            if podutil.phase(pod) == "Failed":
                self._replace_failed(node, pod)
            elif podutil.phase(pod) == "Succeeded":
                self._delete_ended(node, pod, "succeeded", "delete")
            else:
                going_on.append(pod)
        if not self.surges:
            self.plan.delete += going_on[1:]
        elif len(going_on) > 1:
            self._keep_two(going_on)
        elif not going_on and runs:
            self.create.append(node)

    def _keep_two(self, pods: Iterable[AnyObject]) -> None:
        """Keep the oldest new and the oldest old pod, until the new one is available."""
        kept: dict[bool, AnyObject] = {}
        for pod in pods:
            state = pod.metadata.labels.get(REVISION_LABEL) == self.history.current
            if state in kept:
                self.plan.delete.append(pod)
            kept.setdefault(state, pod)
        if len(kept) == 2 and (not podutil.is_ready(kept[False]) or self._is_available(kept[True])):
            self.plan.delete.append(kept[False])

    def _replace_failed(self, node: str, pod: AnyObject) -> None:
        moment = self.plan.backoff.until(node, self.now)
        if moment is not None:
            self._requeue_at(moment)
            return
        self.plan.backoff = self.plan.backoff.after_failure(node, self.now)
        self._delete_ended(node, pod, "failed", "kill")

    def _delete_ended(self, node: str, pod: AnyObject, state: str, verb: str) -> None:
        where = f"{pod.metadata.namespace}/{pod.metadata.name} on node {node}"
        self.plan.events.append(
            Event(
                f"{state.capitalize()}DaemonPod",
                f"Found {state} daemon pod {where}, will try to {verb} it",
                "Warning" if state == "failed" else "Normal",
            )
        )
        self.plan.delete.append(pod)

    def _update(self) -> None:
        names = sorted({*self.by_node, *self.desired})
        nodes = {name: on_node(self.by_node.get(name, ()), self._is_updated) for name in names}
        if not self.limits.surge:
            step = replace(nodes, self.limits.unavailable, self._is_available)
        else:
            desired = frozenset(self.desired)
            step = surge(
                nodes,
                self.limits.surge,
                self._is_available,
                desired.__contains__,
                len(desired),
            )
        self.plan.delete += step.delete
        self.create += step.create

    def _is_updated(self, pod: AnyObject) -> bool:
        return is_updated(self.owner, pod, self.history.current)

    def _is_available(self, pod: AnyObject) -> bool:
        since = podutil.ready_since(pod)
        if since is not None and not podutil.is_available(pod, self.min_ready, self.now):
            self._requeue_at(since + self.min_ready)
        return podutil.is_available(pod, self.min_ready, self.now)

    def _requeue_at(self, moment: float) -> None:
        known = self.plan.requeue_at
        self.plan.requeue_at = moment if known is None else min(known, moment)

    # -- status ------------------------------------------------------------------------------

    def _status(self) -> dict[str, Any]:
        """Return the status of what is there; what is written now counts in the next call."""
        oldest = [self.by_node[name][0] for name in self.desired if name in self.by_node]
        misplaced = [
            name for name, each in self.fits.items() if not each.runs and name in self.by_node
        ]
        available = sum(self._is_available(pod) for pod in oldest)
        optional = {
            "updatedNumberScheduled": sum(self._is_updated(pod) for pod in oldest),
            "numberAvailable": available,
            "numberUnavailable": len(self.desired) - available,
        }
        kept = {key: value for key, value in self.owner.status.items() if key not in optional}
        return kept | {
            "observedGeneration": self.owner.metadata.generation,
            "desiredNumberScheduled": len(self.desired),
            "currentNumberScheduled": len(oldest),
            "numberMisscheduled": len(misplaced),
            "numberReady": sum(podutil.is_ready(pod) for pod in oldest),
            **{key: value for key, value in optional.items() if value},
        }


def _age(pod: AnyObject) -> tuple[bool, float, str]:
    """Return the sort key of the pods of a node: bound ones first, then the older ones."""
    created = pod.metadata.creation_timestamp
    return (
        not pod.spec.get("nodeName"),
        parse_time(created) if created else 0.0,
        pod.metadata.name,
    )
