"""Reads Jobs and their pods, calls `plan`, and carries out the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, Result, own_key, owner_key
from traincrew.engine.errors import is_namespace_terminating
from traincrew.engine.objects import controller_of
from traincrew.engine.resources import JOBS, PODS
from traincrew.local.controllers.context import (
    NOT_CURRENT,
    ControllerContext,
)
from traincrew.local.controllers.informers import CONTROLLER, informer
from traincrew.local.controllers.job.backoff import Backoff
from traincrew.local.controllers.job.model import (
    MANAGED_BY,
    TRACKING,
    Plan,
    is_job_finished,
    is_tracked,
)
from traincrew.local.controllers.job.plan import plan_job

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject


_NAME_LABEL = "batch.kubernetes.io/job-name"


def add(manager: Manager, events: EventRecorder) -> None:
    """Run Jobs, and remove the finalizer from pods whose Job is gone."""
    jobs, pods = informer(manager, JOBS), informer(manager, PODS)
    reconciler = JobReconciler(manager, events)
    controller = Controller("job", reconciler.reconcile, workers=4)
    controller.watch(jobs, own_key)
    controller.watch(pods, owner_key("Job", "batch"))
    controller.watch(pods, reconciler.possible_adopters)
    manager.add(controller)

    orphans = OrphanReconciler(manager, events)
    cleaner = Controller("job-orphans", orphans.reconcile, workers=4)
    cleaner.watch(pods, lambda pod: own_key(pod) if is_tracked(pod) else [])
    cleaner.watch(jobs, orphans.pods_of_gone)
    manager.add(cleaner)


class JobReconciler:
    """Reconciles one Job at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._jobs, self._pods = informer(manager, JOBS), informer(manager, PODS)
        self._context = ControllerContext(manager.client, events.reporter("job-controller"), JOBS)
        self._backoffs: dict[Request, tuple[str, Backoff]] = {}

    def possible_adopters(self, pod: AnyObject) -> list[Request]:
        """Return the Job that may adopt a pod without controller, named by its label."""
        name = pod.metadata.labels.get(_NAME_LABEL)
        if name is None or controller_of(pod) is not None:
            return []
        return [Request(pod.metadata.namespace, name)]

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one Job."""
        job = self._jobs.store.get(request.namespace, request.name)
        if job is None:
            self._context.forget(request)
            self._backoffs.pop(request, None)
            return None
        if not self._context.is_current(request):
            return NOT_CURRENT
        uid = job.metadata.uid
        if job.spec.get("managedBy", MANAGED_BY) != MANAGED_BY:
            return None
        if is_job_finished(job):
            mine: list[AnyObject] | None = self._pods.store.by_index(CONTROLLER, uid)
        else:
            mine = await self._context.claim(request, job, self._pods, finalizers=(TRACKING,))
        if mine is None:
            return NOT_CURRENT
        now = self._context.now()
        known, backoff = self._backoffs.get(request, (uid, Backoff()))
        plan = plan_job(job, mine, now, backoff if known == uid else Backoff())
        self._backoffs[request] = (uid, plan.backoff)
        await self._carry_out(request, job, plan)
        if plan.requeue_at is None:
            return None
        return Result(requeue_after=max(0.0, plan.requeue_at - self._context.now()) + 0.001)

    async def _carry_out(self, request: Request, job: AnyObject, plan: Plan) -> None:
        context, pods = self._context, self._pods
        _raise_first(
            await context.run_all(
                context.delete_pod(request, pods, job, deletion.pod, deletion.release)
                for deletion in plan.delete
            )
        )
        refused = await context.run_all(
            context.create_pod(request, pods, job, pod) for pod in plan.create
        )
        seen, version = job.status, job.metadata.resource_version
        if plan.status is not None:
            status = _without(plan.status, len(refused))
            version = await context.write_status(
                request, self._jobs, job, seen, status, version=version
            )
            seen = status
        _raise_first(
            await context.run_all(
                context.remove_finalizer(request, pods, pod, TRACKING) for pod in plan.release
            )
        )
        if plan.final_status is not None and version:
            status = _without(plan.final_status, len(refused))
            version = await context.write_status(
                request, self._jobs, job, seen, status, version=version
            )
        if version:
            context.record(job, *plan.events)
        _raise_first(refused)


def _without(status: dict[str, Any], refused: int) -> dict[str, Any]:
    """Return the status without the pods that the server refused to create."""
    if not refused:
        return status
    active = status.get("active", 0) - refused
    rest = {key: value for key, value in status.items() if key != "active"}
    return rest | {"active": active} if active > 0 else rest


def _raise_first(errors: Iterable[Exception]) -> None:
    for error in errors:
        if not is_namespace_terminating(error):
            raise error


class OrphanReconciler:
    """Removes the tracking finalizer from pods whose Job is gone and will not count them."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._jobs, self._pods = informer(manager, JOBS), informer(manager, PODS)
        self._context = ControllerContext(manager.client, events.reporter("job-controller"), PODS)

    def pods_of_gone(self, job: AnyObject) -> list[Request]:
        """Return the pods of a deleted Job."""
        current = self._jobs.store.get(job.metadata.namespace, job.metadata.name)
        if current is not None and current.metadata.uid == job.metadata.uid:
            return []
        return [
            Request(pod.metadata.namespace, pod.metadata.name)
            for pod in self._pods.store.by_index(CONTROLLER, job.metadata.uid)
            if is_tracked(pod)
        ]

    async def reconcile(self, request: Request) -> None:
        """Remove the finalizer from one pod, unless there is a Job to count it."""
        pod = self._pods.store.get(request.namespace, request.name)
        if pod is None or not is_tracked(pod):
            self._context.forget(request)
            return
        owner = controller_of(pod)
        if owner is not None:
            if owner.kind != "Job" or not owner.api_version.startswith("batch/"):
                return
            job = self._jobs.store.get(request.namespace, owner.name)
            if job is not None and job.metadata.uid == owner.uid:
                return
            # The pod may be newer than the cache of Jobs.
            if not await self._context.client.is_gone(
                JOBS, owner.name, request.namespace, uid=owner.uid
            ):
                return
        elif await self._may_be_adopted(pod):
            return
        await self._context.remove_finalizer(request, self._pods, pod, TRACKING)

    async def _may_be_adopted(self, pod: AnyObject) -> bool:
        name, namespace = pod.metadata.labels.get(_NAME_LABEL, ""), pod.metadata.namespace
        if not name or pod.metadata.deletion_timestamp is not None:
            return False
        job = self._jobs.store.get(namespace, name)
        if job is None:
            return not await self._context.client.is_gone(JOBS, name, namespace, uid="")
        return not is_job_finished(job) and job.metadata.deletion_timestamp is None
