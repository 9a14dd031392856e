"""Keeps PodGroups in use when they are deleted: upstream's controller podgroup-protection.

The API server adds the finalizer when PodGroups are created.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.resources import POD_GROUPS, PODS
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import NAMESPACE, informer, pods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject

PROTECTION = "scheduling.k8s.io/podgroup-protection"
_ENDED = frozenset({"Succeeded", "Failed"})


def add_podgroup_protection(manager: Manager, events: EventRecorder) -> None:
    """Release deleted PodGroups that no pod names which has not ended."""
    groups, members = informer(manager, POD_GROUPS), pods(manager)
    context = ControllerContext(
        manager.client, events.reporter("podgroup-protection-controller"), POD_GROUPS
    )

    async def reconcile(request: Request) -> Result | None:
        group = groups.store.get(*request)
        if group is None:
            context.forget(request)
            return None
        meta = group.metadata
        if meta.deletion_timestamp is None or PROTECTION not in meta.finalizers:
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        known = members.store.by_index(NAMESPACE, request.namespace)
        if any(_uses(pod.spec, pod.status, request.name) for pod in known):
            return None
        # The cache may lack a pod that has just been created: what is removed cannot be restored.
        live = await context.client.list(PODS, request.namespace)
        for pod in live["items"]:
            if _uses(pod["spec"], pod.get("status", {}), request.name):
                return None
        await context.remove_finalizer(request, groups, group, PROTECTION)
        return None

    controller = Controller("podgroup-protection", reconcile, workers=1)
    controller.watch(groups, own_key)
    controller.informers.append(members)

    def pod_changed(old: AnyObject | None, new: AnyObject | None) -> None:
        if old is not None and (name := _group_of(old.spec)) and not _uses_now(new, old, name):
            controller.enqueue(Request(old.metadata.namespace, name))

    members.add_handler(pod_changed)
    manager.add(controller)


def _group_of(spec: Mapping[str, Any]) -> str:
    """Return the PodGroup that a pod names; empty for none."""
    return str((spec.get("schedulingGroup") or {}).get("podGroupName") or "")


def _uses(spec: Mapping[str, Any], status: Mapping[str, Any], group: str) -> bool:
    """Return whether a pod keeps a PodGroup."""
    return _group_of(spec) == group and status.get("phase") not in _ENDED


def _uses_now(pod: AnyObject | None, old: AnyObject, group: str) -> bool:
    """Return whether a pod still keeps a PodGroup; another of its name is not the same pod."""
    return (
        pod is not None
        and pod.metadata.uid == old.metadata.uid
        and _uses(pod.spec, pod.status, group)
    )
