"""Keeps the scheduler's picture current, asks `plan`, binds.

There is one request: "look at everything that waits". Whatever could change the outcome asks for
it (a pod to place, a pod that ended, a node that changed), so nothing polls, and what arrives
together is decided together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    Resource,
)
from traincrew.local.controllers.common import format_time
from traincrew.local.controllers.informers import informer, pods
from traincrew.local.controllers.shell import Shell
from traincrew.local.controllers.writes import Note
from traincrew.local.scheduler.plan import Assignment, condition, place
from traincrew.local.scheduler.priorities import Priorities, PriorityClass
from traincrew.local.scheduler.state import ClusterState
from traincrew.local.scheduler.unsupported import REASON, no_preemption, not_emulated

if TYPE_CHECKING:
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.manager import Manager
    from traincrew.engine.objects import AnyObject

PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False
)
FIELD_MANAGER = "kube-scheduler"
_ALL = Request("", "pending-pods")
_GATED = "Scheduling is blocked due to non-empty scheduling gates"


class Scheduler:
    """Places every pending pod."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._pods = pods(manager)
        self._claims = informer(manager, PERSISTENT_VOLUME_CLAIMS)
        self._shell = Shell(manager.client, events.reporter("default-scheduler"), PODS)
        self._state = ClusterState()
        self._waiting: dict[tuple[str, str], AnyObject] = {}
        """Pods without a node by namespace and name, in the order in which they came."""
        self._priorities = Priorities()
        self._told: set[tuple[str, str]] = set()
        self.controller = Controller("scheduler", self.reconcile, workers=1)

        classes = manager.informer(PRIORITY_CLASSES, PriorityClass)
        nodes, namespaces = informer(manager, NODES), informer(manager, NAMESPACES)
        self.controller.informers += [self._pods, self._claims, classes, nodes, namespaces]
        classes.add_handler(self._class_changed)
        nodes.add_handler(self._node_changed)
        namespaces.add_handler(self._namespace_changed)
        self._claims.add_handler(self._claim_changed)
        self._pods.add_handler(self._pod_changed)

    # -- the picture -------------------------------------------------------------------------

    def _pod_changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
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
                self.controller.enqueue(_ALL)  # it ended: there is room

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
        if old is None or new is None:
            self.controller.enqueue(_ALL)

    # -- decisions ---------------------------------------------------------------------------

    async def reconcile(self, _: Request) -> None:
        """Place what waits."""
        waiting = []
        writes = []
        for pod in self._waiting.values():
            if self._state.is_placed(pod.metadata.uid):
                continue  # decided, and the cache does not show it yet
            for message in not_emulated(pod, self._priorities):
                self._warn_once(pod, message)
            if pod.spec.get("schedulingGates"):
                writes.append(self._explain(pod, "SchedulingGated", _GATED))
            else:
                waiting.append(pod)
        plan = place(waiting, self._state, self._priorities.of, self._missing_claim)
        for failure in plan.failures:
            if failure.would_preempt:
                self._warn_once(failure.pod, no_preemption(failure.pod))
            writes.append(self._explain(failure.pod, "Unschedulable", failure.message))
        writes += [self._bind(assignment) for assignment in plan.assignments]
        for error in await self._shell.together(writes):
            raise error

    def _missing_claim(self, pod: AnyObject) -> str:
        for volume in pod.spec.get("volumes") or ():
            claim = volume.get("persistentVolumeClaim")
            if not claim:
                continue
            name = claim.get("claimName", "")
            found = self._claims.store.get(pod.metadata.namespace, name)
            if found is None:
                return f'persistentvolumeclaim "{name}" not found'
            if found.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{name}" is being deleted'
        return ""

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
            await self._shell.client.create(
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
            # After a conflict too: somebody else placed it, or it is another pod of that name. The
            # retry looks at the cache, which will know.
            self._take_back(pod)
            raise
        else:
            text = f"Successfully assigned {namespace}/{name} to {node}"
            self._shell.note(pod, Note("Scheduled", text))

    def _take_back(self, pod: AnyObject) -> None:
        """Forget a decision; what the cache shows counts."""
        self._state.drop_pod(pod.metadata.uid)
        shown = self._pods.store.get(pod.metadata.namespace, pod.metadata.name)
        if shown is not None:
            self._state.set_pod(shown)

    async def _explain(self, pod: AnyObject, reason: str, message: str) -> None:
        """Say in the pod's status, and once as an event, why it waits."""
        fresh = condition(message, reason, format_time(self._shell.now()), pod)
        if fresh is None:
            return
        try:
            await self._shell.client.patch(
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
        if reason == "Unschedulable":
            self._shell.note(pod, Note("FailedScheduling", message, "Warning"))

    def _warn_once(self, pod: AnyObject, message: str) -> None:
        key = (pod.metadata.uid, message)
        if key not in self._told:
            self._told.add(key)
            self._shell.note(pod, Note(REASON, message, "Warning"))


def is_pending(pod: AnyObject) -> bool:
    """Whether it waits for a node."""
    return (
        not pod.spec.get("nodeName")
        and pod.metadata.deletion_timestamp is None
        and pod.status.get("phase", "Pending") == "Pending"
    )
