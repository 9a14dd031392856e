"""Creates the claims of pods' `ephemeral` volumes; they are deleted with their pods.

Upstream's ephemeral-volume-controller (``pkg/controller/volume/ephemeral``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.errors import AlreadyExistsError, is_namespace_terminating
from traincrew.engine.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from traincrew.local.controllers.common import owner_reference
from traincrew.local.controllers.context import ControllerContext
from traincrew.local.controllers.informers import informer, pods
from traincrew.local.controllers.volumes.usage import claim_uses

if TYPE_CHECKING:
    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject


def ephemeral_claims(pod: AnyObject) -> list[dict[str, Any]]:
    """Return the claims to create for a pod; none for one that is being deleted."""
    if pod.metadata.deletion_timestamp is not None:
        return []
    claims = []
    for use in claim_uses(pod):
        if use.template is None:
            continue
        meta = use.template.get("metadata") or {}
        metadata: dict[str, Any] = {
            "name": use.claim,
            "namespace": pod.metadata.namespace,
            "ownerReferences": [owner_reference(pod, PODS)],
        }
        for field in ("annotations", "labels"):
            if meta.get(field):
                metadata[field] = meta[field]
        claims.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": use.template.get("spec") or {},
            }
        )
    return claims


def add_ephemeral_controller(manager: Manager, events: EventRecorder) -> None:
    """Create the claims of new pods."""
    source, claims = pods(manager), informer(manager, PERSISTENT_VOLUME_CLAIMS)
    context = ControllerContext(manager.client, events.reporter("ephemeral_volume"), PODS)
    controller = Controller("ephemeral-volume", _reconciler(context, source, claims), workers=1)
    controller.informers += [source, claims]

    def pod_changed(_: AnyObject | None, pod: AnyObject | None) -> None:
        if pod is not None and any("ephemeral" in each for each in pod.spec.get("volumes") or ()):
            controller.enqueue(*own_key.to_requests(pod))

    source.add_handler(pod_changed)
    manager.add(controller)


def _reconciler(context: ControllerContext, source: Any, claims: Any) -> Any:
    async def reconcile(request: Request) -> Result | None:
        pod = source.store.get(*request)
        for claim in ephemeral_claims(pod) if pod is not None else ():
            if claims.store.get(request.namespace, claim["metadata"]["name"]) is not None:
                continue
            try:
                await context.create(request, claims, claim)
            except AlreadyExistsError:
                continue
            except Exception as error:
                if is_namespace_terminating(error):
                    continue
                raise
        return None

    return reconcile
