"""Fields and kinds that the embedded cluster stores but does not support.

Each object that uses one gets a Warning event `NotEmulated` per field. The table is pure; for
fields of pods, the node and the scheduler report what they do not support.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from traincrew.engine.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SERVICES,
    STATEFUL_SETS,
)
from traincrew.local.controllers.common import object_reference, parse_time
from traincrew.local.controllers.informers import informer
from traincrew.local.controllers.volumes.binding import MOUNTED, source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject, HasMetadata
    from traincrew.engine.resources import Resource

REASON = "NotEmulated"

STORED_ONLY: dict[tuple[str, str], str] = {
    ("networking.k8s.io", "ingresses"): "nothing listens; use the Service's address",
    ("networking.k8s.io", "networkpolicies"): "all traffic is allowed",
}
"""(group, plural) -> what happens instead."""


def stored_only(resource: Resource) -> str:
    """Return the message about objects of this kind; empty if the cluster acts on them."""
    instead = STORED_ONLY.get((resource.group, resource.plural))
    if instead is None:
        return ""
    return f"the embedded cluster stores {resource.kind} objects without acting on them: {instead}"


def of_service(service: AnyObject) -> list[str]:
    """Return the messages about unsupported fields of a Service."""
    spec = service.spec
    messages = []
    if spec.get("type") in {"LoadBalancer", "NodePort"}:
        messages.append(
            f"spec.type: {spec['type']} gives no address outside the cluster here; use the cluster "
            "IP, which is reachable from this machine"
        )
    if spec.get("externalIPs"):
        messages.append("spec.externalIPs: nothing listens there")
    if "IPv6" in (spec.get("ipFamilies") or ()):
        messages.append("spec.ipFamilies: the cluster has IPv4 addresses only")
    return messages


def of_claim(claim: AnyObject) -> list[str]:
    """Return the messages about unsupported fields of a PersistentVolumeClaim."""
    spec = claim.spec
    messages = []
    if spec.get("volumeMode") == "Block":
        messages.append("spec.volumeMode: there are no block devices; the claim is a directory")
    messages += [
        f"spec.{field}: the claim starts empty"
        for field in ("dataSource", "dataSourceRef")
        if spec.get(field)
    ]
    return messages


def of_volume(volume: AnyObject) -> list[str]:
    """Return the messages about unsupported fields of a PersistentVolume."""
    spec, source = volume.spec, source_of(volume)
    messages = []
    if source not in MOUNTED:
        messages.append(
            f"spec.{source}: not mounted; the claim that gets this volume is an empty directory on "
            "this machine. Use hostPath to show files of the machine"
        )
    if spec.get("mountOptions"):
        messages.append("spec.mountOptions: directories of this machine are shown as they are")
    if spec.get("nodeAffinity"):
        messages.append("spec.nodeAffinity: not considered; all nodes are this machine")
    if (policy := spec.get("persistentVolumeReclaimPolicy", "Retain")) != "Retain":
        messages.append(
            f"spec.persistentVolumeReclaimPolicy: {policy} deletes no files here; the volume "
            "becomes Failed when its claim is deleted"
        )
    return messages


def of_stateful_set(owner: AnyObject) -> list[str]:
    """Return the messages about unsupported fields of a StatefulSet."""
    rolling = (owner.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    if rolling.get("maxUnavailable") in {None, 1, "1"}:
        return []
    return ["spec.updateStrategy.rollingUpdate.maxUnavailable: one pod is updated at a time"]


class UnsupportedReporter:
    """Records one event for each unsupported field of a new object."""

    def __init__(
        self, manager: Manager, events: EventRecorder, clock: Callable[[], float] = time.time
    ) -> None:
        self._events = events
        # An earlier run of this cluster has reported older objects.
        self._since = clock() - 5.0
        for resource, rule in (
            (SERVICES, of_service),
            (PERSISTENT_VOLUME_CLAIMS, of_claim),
            (PERSISTENT_VOLUMES, of_volume),
            (STATEFUL_SETS, of_stateful_set),
        ):
            self._watch(manager, resource, rule)

    def _watch(
        self, manager: Manager, resource: Resource, rule: Callable[[AnyObject], list[str]]
    ) -> None:
        def handle(old: AnyObject | None, new: AnyObject | None) -> None:
            if new is None:
                return
            known = set(rule(old)) if old is not None else set()
            for message in rule(new):
                if message not in known:
                    self._report(resource, new, message)

        informer(manager, resource).add_handler(handle)

    def added(self, resource: Resource, obj: Any) -> None:
        """Report a new object of any kind."""
        message = stored_only(resource)
        if message:
            self._report(resource, obj, message)

    def _report(self, resource: Resource, obj: HasMetadata, message: str) -> None:
        if parse_time(obj.metadata.creation_timestamp) >= self._since:
            self._events.event(object_reference(obj, resource), "Warning", REASON, message)
