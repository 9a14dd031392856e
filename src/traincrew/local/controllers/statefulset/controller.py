"""Reads StatefulSets, their pods and revisions, calls `plan`, and carries out the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, Result, own_key, owner_key
from traincrew.engine.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    NotFoundError,
    is_namespace_terminating,
)
from traincrew.engine.objects import controller_of
from traincrew.engine.resources import (
    CONTROLLER_REVISIONS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
)
from traincrew.local.controllers.common import FIELD_MANAGER
from traincrew.local.controllers.context import (
    NOT_CURRENT,
    ControllerContext,
)
from traincrew.local.controllers.informers import CONTROLLER, informer
from traincrew.local.controllers.revisions import REVISION_LABEL
from traincrew.local.controllers.selectors import matches
from traincrew.local.controllers.statefulset.identity import (
    claim_name,
    claims_of,
    ordinal_of,
)
from traincrew.local.controllers.statefulset.plan import Plan, plan_stateful_set
from traincrew.local.controllers.statefulset.revisions import choose
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.statefulset.plan import Creation
    from traincrew.local.controllers.statefulset.revisions import Revisions


def add(manager: Manager, events: EventRecorder) -> None:
    """Run StatefulSets."""
    reconciler = StatefulSetReconciler(manager, events)
    controller = Controller("statefulset", reconciler.reconcile, workers=4)
    controller.watch(informer(manager, STATEFUL_SETS), own_key)
    controller.watch(informer(manager, PODS), owner_key("StatefulSet", "apps"))
    controller.watch(informer(manager, PODS), reconciler.possible_adopters)
    controller.watch(informer(manager, CONTROLLER_REVISIONS), owner_key("StatefulSet", "apps"))
    manager.add(controller)


class StatefulSetReconciler:
    """Reconciles one StatefulSet at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._sets = informer(manager, STATEFUL_SETS)
        self._pods = informer(manager, PODS)
        self._revisions = informer(manager, CONTROLLER_REVISIONS)
        self._context = ControllerContext(
            manager.client, events.reporter("statefulset-controller"), STATEFUL_SETS
        )

    def possible_adopters(self, pod: AnyObject) -> list[Request]:
        """Return the StatefulSets that may adopt a pod without controller."""
        if controller_of(pod) is not None:
            return []
        owner, dash, number = pod.metadata.name.rpartition("-")
        if not dash or not number.isdecimal():
            return []
        found = self._sets.store.get(pod.metadata.namespace, owner)
        if found is None or not matches(found.spec.get("selector"), pod.metadata.labels):
            return []
        return [Request(pod.metadata.namespace, owner)]

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one StatefulSet."""
        owner = self._sets.store.get(request.namespace, request.name)
        if owner is None:
            self._context.forget(request)
            return None
        if not self._context.is_current(request):
            return NOT_CURRENT
        pods = await self._context.claim(
            request,
            owner,
            self._pods,
            fits=lambda pod: ordinal_of(owner, pod.metadata.name) is not None,
        )
        if pods is None:
            return NOT_CURRENT
        revisions = choose(
            owner,
            self._revisions.store.by_index(CONTROLLER, owner.metadata.uid),
            {pod.metadata.labels.get(REVISION_LABEL, "") for pod in pods},
        )
        if owner.metadata.deletion_timestamp is None:
            await self._keep_history(request, revisions)
        now = self._context.now()
        plan = plan_stateful_set(owner, pods, revisions, now)
        await self._carry_out(request, owner, plan)
        if plan.requeue_at is None:
            return None
        return Result(requeue_after=max(0.0, plan.requeue_at - self._context.now()) + 0.001)

    async def _keep_history(self, request: Request, revisions: Revisions) -> None:
        if revisions.create is not None:
            await self._context.create(request, self._revisions, revisions.create)
        if revisions.renumber is not None:
            revision, number = revisions.renumber
            await self._context.patch(request, self._revisions, revision, {"revision": number})
        for revision in revisions.obsolete:
            await self._context.delete(request, self._revisions, revision)

    async def _carry_out(self, request: Request, owner: AnyObject, plan: Plan) -> None:
        context, pods = self._context, self._pods
        self._context.record(owner, *plan.events)
        if plan.scaled_down:
            await self._release_claims(owner, plan.scaled_down)
        errors = await context.run_all(
            [
                *(self._delete(request, owner, pod) for pod in plan.delete),
                *(self._create(request, owner, creation) for creation in plan.create),
                *(
                    context.patch(request, pods, pod, {"metadata": {"labels": labels}})
                    for pod, labels in plan.relabel
                ),
            ]
        )
        status = plan.observed if errors else plan.status
        await context.write_status(request, self._sets, owner, owner.status, status)
        for error in errors:
            if not is_namespace_terminating(error):
                raise error

    async def _create(self, request: Request, owner: AnyObject, creation: Creation) -> None:
        name, pod_name = owner.metadata.name, creation.pod["metadata"]["name"]
        subject = f"Create Pod {pod_name} in StatefulSet {name}"
        try:
            for claim in claims_of(owner, creation.ordinal):
                await self._create_claim(owner, claim, pod_name)
            await self._context.create(request, self._pods, creation.pod)
        except ApiError as error:
            if not is_namespace_terminating(error):
                text = f"{subject} failed error: {error.message}"
                self._context.record(owner, Event("FailedCreate", text, "Warning"))
            raise
        self._context.record(owner, Event("SuccessfulCreate", f"{subject} successful"))

    async def _create_claim(self, owner: AnyObject, claim: dict[str, Any], pod_name: str) -> None:
        try:
            await self._context.client.create(
                PERSISTENT_VOLUME_CLAIMS, claim, field_manager=FIELD_MANAGER
            )
        except AlreadyExistsError:
            await self._check_claim(owner, claim)
            return  # claims outlive pods
        name = claim["metadata"]["name"]
        text = f"Create Claim {name} Pod {pod_name} in StatefulSet {owner.metadata.name} success"
        self._context.record(owner, Event("SuccessfulCreate", text))

    async def _check_claim(self, owner: AnyObject, claim: dict[str, Any]) -> None:
        """Raise a conflict, which is retried, if the claim that exists is being deleted."""
        name = claim["metadata"]["name"]
        live = await self._context.client.get(
            PERSISTENT_VOLUME_CLAIMS, name, owner.metadata.namespace
        )
        if live["metadata"].get("deletionTimestamp"):
            raise ConflictError(f"pvc {name} is being deleted")

    async def _delete(self, request: Request, owner: AnyObject, pod: AnyObject) -> None:
        subject = f"Delete Pod {pod.metadata.name} in StatefulSet {owner.metadata.name}"
        try:
            deleted = await self._context.delete(request, self._pods, pod)
        except ApiError as error:
            text = f"{subject} failed error: {error.message}"
            self._context.record(owner, Event("FailedDelete", text, "Warning"))
            raise
        if deleted:
            self._context.record(owner, Event("SuccessfulDelete", f"{subject} successful"))

    async def _release_claims(self, owner: AnyObject, pods: list[AnyObject]) -> None:
        """Make the pods owners of their claims (`whenScaled: Delete`), so both are deleted."""
        policy = owner.spec.get("persistentVolumeClaimRetentionPolicy") or {}
        if policy.get("whenScaled") != "Delete":
            return
        for pod in pods:
            reference = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod.metadata.name,
                "uid": pod.metadata.uid,
            }
            ordinal = ordinal_of(owner, pod.metadata.name) or 0
            for template in owner.spec.get("volumeClaimTemplates") or ():
                name = claim_name(owner, template, ordinal)
                try:
                    await self._context.client.patch(
                        PERSISTENT_VOLUME_CLAIMS,
                        name,
                        owner.metadata.namespace,
                        patch={"metadata": {"ownerReferences": [reference]}},
                        field_manager=FIELD_MANAGER,
                    )
                except NotFoundError:
                    continue
