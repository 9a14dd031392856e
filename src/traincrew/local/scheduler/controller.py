"""Keeps the scheduler's state up to date, calls `plan`, and binds pods.

There is a single request: "schedule all pending pods". Every change that could affect the outcome
queues it (a new pod, a finished pod, a changed node), so nothing polls, and pods that arrive
together are scheduled together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request, Result
from traincrew.engine.errors import ConflictError, NotFoundError
from traincrew.engine.resources import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    Resource,
)
from traincrew.local.controllers.common import format_time, parse_time
from traincrew.local.controllers.context import ControllerContext
from traincrew.local.controllers.informers import informer, pods
from traincrew.local.controllers.volumes.usage import belongs_to, claim_uses
from traincrew.local.controllers.writes import Event
from traincrew.local.scheduler.groups import membership
from traincrew.local.scheduler.plan import condition, place
from traincrew.local.scheduler.podgroups import PodGroups
from traincrew.local.scheduler.priorities import Priorities, PriorityClass
from traincrew.local.scheduler.state import ClusterState
from traincrew.local.scheduler.unsupported import (
    DEFAULT_SCHEDULER,
    NO_SCHEDULER,
    REASON,
    no_preemption,
    not_emulated,
    scheduler_of,
    unclaimed,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.scheduler.outcomes import Assignment, Preemption

PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
FIELD_MANAGER = "kube-scheduler"
_ALL = Request("", "pending-pods")
GROUP_PATIENCE = 2.0
"""Seconds from the creation of a pod until it is reported that its group is not complete.

Controllers create the pods of a group one after another, and some the PodGroup after the pods.
"""
_GATED = "Scheduling is blocked due to non-empty scheduling gates"
PATIENCE = 5.0
"""Seconds to wait for another scheduler to handle a pod before it is reported that none has."""
BINDING_PATIENCE = 3.0
"""Seconds from the creation of a pod or claim until a claim that is not bound is reported.

Longer than the binder waits for a volume (`volumes.binding.PATIENCE`).
"""


class Scheduler:
    """Schedules every pending pod that names it.

    Args:
        manager: Runs it.
        events: Records its events.
        names: Further values of `spec.schedulerName` that it handles, besides its own.
        patience: Seconds before a pod that no scheduler handles is reported.
    """

    def __init__(
        self,
        manager: Manager,
        events: EventRecorder,
        names: Iterable[str] = (),
        patience: float = PATIENCE,
    ) -> None:
        self._names = {DEFAULT_SCHEDULER, *names}
        self._patience = patience
        self._pods = pods(manager)
        self._claims = informer(manager, PERSISTENT_VOLUME_CLAIMS)
        self._context = ControllerContext(
            manager.client, events.reporter("default-scheduler"), PODS
        )
        self._state = ClusterState()
        self._waiting: dict[tuple[str, str], AnyObject] = {}
        """Pods without a node by namespace and name, in the order of their arrival."""
        self._priorities = Priorities()
        self._groups = PodGroups(manager, lambda: self.controller.enqueue(_ALL))
        self._told: set[tuple[str, str]] = set()
        self.controller = Controller("scheduler", self.reconcile, workers=1)

        classes = manager.informer(PRIORITY_CLASSES, PriorityClass)
        nodes, namespaces = informer(manager, NODES), informer(manager, NAMESPACES)
        self.controller.informers += [self._pods, self._claims, classes, nodes, namespaces]
        self.controller.informers += [self._groups.native, self._groups.definitions]
        classes.add_handler(self._class_changed)
        nodes.add_handler(self._node_changed)
        namespaces.add_handler(self._namespace_changed)
        self._claims.add_handler(self._claim_changed)
        self._pods.add_handler(self._pod_changed)

    # -- the cluster state -------------------------------------------------------------------

    def _pod_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        if self._groups.pod_changed(old, new):
            self.controller.enqueue(_ALL)  # for the status of its group
        if new is None:
            if old is not None:
                self._forget(old)
            return
        key = (new.metadata.namespace, new.metadata.name)
        if is_pending(new):
            self._waiting[key] = new
            self.controller.enqueue(_ALL)
            return
        self._waiting.pop(key, None)
        if new.spec.get("nodeName"):
            known = self._state.is_placed(new.metadata.uid)
            self._state.set_pod(new)
            if known and not self._state.is_placed(new.metadata.uid):
                self.controller.enqueue(_ALL)  # it finished, which frees resources

    def _forget(self, pod: AnyObject) -> None:
        uid = pod.metadata.uid
        self._waiting.pop((pod.metadata.namespace, pod.metadata.name), None)
        self._told = {item for item in self._told if item[0] != uid}
        if self._state.is_placed(uid):
            self._state.drop_pod(uid)
            self.controller.enqueue(_ALL)

    def _node_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        if new is None:
            if old is not None:
                self._state.drop_node(old.metadata.name)
        elif not self._state.set_node(new):
            return
        self.controller.enqueue(_ALL)

    def _namespace_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        if new is not None:
            self._state.namespaces[new.metadata.name] = dict(new.metadata.labels)
        elif old is not None:
            self._state.namespaces.pop(old.metadata.name, None)

    def _class_changed(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        self._priorities.set_class(old, new)

    def _claim_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        if old is None or new is None or old.status.get("phase") != new.status.get("phase"):
            self.controller.enqueue(_ALL)

    # -- decisions ---------------------------------------------------------------------------

    async def reconcile(self, _: Request) -> Result | None:
        """Schedule all pending pods."""
        waiting = []
        writes = []
        later: list[float] = []
        await self._groups.look(self._waiting.values())
        for pod in self._waiting.values():
            if self._state.is_placed(pod.metadata.uid):
                continue  # assigned already, but not yet in the cache
            if self._groups.is_unknown(pod):
                continue
            if scheduler_of(pod) not in self._names:
                rest = parse_time(pod.metadata.creation_timestamp) + self._patience
                if _is_handled(pod):
                    continue
                if (rest := rest - self._context.now()) > 0:
                    later.append(rest)
                else:
                    writes.append(self._explain(pod, NO_SCHEDULER, unclaimed(pod)))
                continue
            grouped = self._groups.of(pod) is not None
            for message in not_emulated(pod, self._priorities, grouped=grouped):
                self._warn_once(pod, message)
            if pod.spec.get("schedulingGates"):
                writes.append(self._explain(pod, "SchedulingGated", _GATED))
            elif (rest := self._until_bound(pod)) > 0:
                later.append(rest)
            else:
                waiting.append(pod)
        plan = place(
            waiting, self._state, self._priorities.of, self._missing_claim, self._groups.of
        )
        for failure in plan.failures:
            if failure.incomplete:
                created = parse_time(failure.pod.metadata.creation_timestamp)
                if (rest := created + GROUP_PATIENCE - self._context.now()) > 0:
                    later.append(rest)
                    if (key := membership(failure.pod)) is not None:
                        plan.groups.pop(key, None)
                    continue
            if failure.would_preempt:
                self._warn_once(failure.pod, no_preemption(failure.pod))
            writes.append(self._explain(failure.pod, "Unschedulable", failure.message))
        writes += [self._preempt(preemption) for preemption in plan.preemptions]
        writes += [self._bind(assignment) for assignment in plan.assignments]
        errors = await self._context.run_all(writes)
        # What was refused does not count as scheduled any more.
        errors += await self._context.run_all(
            self._groups.status_writes(plan.groups, self._state.standing, self._context.now())
        )
        for error in errors:
            raise error
        return Result(requeue_after=min(later)) if later else None

    def _missing_claim(self, pod: AnyObject) -> str:
        """Return why a pod cannot be placed yet because of its claims; empty if it can."""
        unbound = ""
        for use in claim_uses(pod):
            name = use.claim
            found = self._claims.store.get(pod.metadata.namespace, name)
            if found is None:
                if use.template is not None:
                    return (
                        "waiting for ephemeral volume controller to create the "
                        f'persistentvolumeclaim "{name}"'
                    )
                return f'persistentvolumeclaim "{name}" not found'
            if found.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if use.template is not None and not belongs_to(found, pod):
                place = f"{pod.metadata.namespace}/"
                return (
                    f"PVC {place}{name} was not created for pod {place}{pod.metadata.name} "
                    "(pod is not owner)"
                )
            if found.status.get("phase") == "Lost":
                volume = found.spec.get("volumeName")
                return (
                    f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume '
                    f'"{volume}"'
                )
            if found.status.get("phase") != "Bound":
                unbound = "pod has unbound immediate PersistentVolumeClaims"
        return unbound

    def _until_bound(self, pod: AnyObject) -> float:
        """Return how many seconds a pod may still wait, without a word, for its new claims.

        Controllers create and bind claims a moment after pods.
        """
        since = pod.metadata.creation_timestamp
        waits = False
        for use in claim_uses(pod):
            found = self._claims.store.get(pod.metadata.namespace, use.claim)
            if found is None:
                waits |= use.template is not None
            elif found.status.get("phase", "Pending") == "Pending":
                waits = True
                since = max(since, found.metadata.creation_timestamp)
        return parse_time(since) + BINDING_PATIENCE - self._context.now() if waits else 0.0

    async def _bind(self, assignment: Assignment) -> None:
        pod, node = assignment.pod, assignment.node
        name, namespace = pod.metadata.name, pod.metadata.namespace
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": pod.metadata.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            await self._context.client.create(
                PODS,
                binding,
                namespace,
                name=name,
                subresource="binding",
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            self._take_back(pod)
        except BaseException:
            # After a conflict, too: another scheduler placed it, or another pod has its name. The
            # retry reads the cache, which will show it.
            self._take_back(pod)
            raise
        else:
            text = f"Successfully assigned {namespace}/{name} to {node}"
            self._context.record(pod, Event("Scheduled", text))

    async def _preempt(self, preemption: Preemption) -> None:
        """Delete a pod to make room for a group."""
        victim, group = preemption.victim, preemption.group
        name, namespace, uid = (
            victim.metadata.name,
            victim.metadata.namespace,
            victim.metadata.uid,
        )
        disrupted = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{DEFAULT_SCHEDULER}: preempting to accommodate a more important pod group",
            "lastTransitionTime": format_time(self._context.now()),
            "observedGeneration": victim.metadata.generation,
        }
        try:
            await self._context.client.patch(
                PODS,
                name,
                namespace,
                patch={"metadata": {"uid": uid}, "status": {"conditions": [disrupted]}},
                kind="strategic",
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
            await self._context.client.delete(PODS, name, namespace, uid=uid)
        except (NotFoundError, ConflictError):
            return
        text = f"Preempted by pod group {group.namespace}/{group.name}"
        self._context.record(victim, Event("Preempted", text, "Warning"))

    def _take_back(self, pod: AnyObject) -> None:
        """Undo an assignment; the state in the cache counts."""
        self._state.drop_pod(pod.metadata.uid)
        shown = self._pods.store.get(pod.metadata.namespace, pod.metadata.name)
        if shown is not None:
            self._state.set_pod(shown)

    async def _explain(self, pod: AnyObject, reason: str, message: str) -> None:
        """Report in the pod's status, and once as an event, why it is pending."""
        fresh = condition(message, reason, format_time(self._context.now()), pod)
        if fresh is None:
            return
        try:
            await self._context.client.patch(
                PODS,
                pod.metadata.name,
                pod.metadata.namespace,
                patch={"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [fresh]}},
                kind="strategic",
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return
        if reason in {"Unschedulable", NO_SCHEDULER}:
            self._context.record(pod, Event("FailedScheduling", message, "Warning"))

    def _warn_once(self, pod: AnyObject, message: str) -> None:
        key = (pod.metadata.uid, message)
        if key not in self._told:
            self._told.add(key)
            self._context.record(pod, Event(REASON, message, "Warning"))


def _is_handled(pod: AnyObject) -> bool:
    """Return whether a scheduler has set a condition on a pod."""
    return any(known.get("type") == "PodScheduled" for known in pod.status.get("conditions") or ())


def is_pending(pod: AnyObject) -> bool:
    """Return whether it waits for a node."""
    return (
        not pod.spec.get("nodeName")
        and pod.metadata.deletion_timestamp is None
        and pod.status.get("phase", "Pending") == "Pending"
    )
