"""Reads CronJobs and their Jobs, calls `plan`, and carries out the result."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request, Result, own_key, owner_key
from traincrew.engine.errors import AlreadyExistsError, ApiError, is_namespace_terminating
from traincrew.engine.resources import JOBS
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext, requeue
from traincrew.local.controllers.cronjob.due import next_look, schedule_of
from traincrew.local.controllers.cronjob.plan import (
    CRON_JOBS,
    plan_cron_job,
    reference_to,
    with_started,
)
from traincrew.local.controllers.informers import CONTROLLER, informer
from traincrew.local.controllers.writes import Event

if TYPE_CHECKING:
    from typing import Any

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject
    from traincrew.local.controllers.cronjob.plan import Plan


def add(manager: Manager, events: EventRecorder) -> None:
    """Run CronJobs."""
    manager.add(CronJobReconciler(manager, events).controller)


class CronJobReconciler:
    """Reconciles one CronJob at a time."""

    def __init__(self, manager: Manager, events: EventRecorder) -> None:
        self._cron_jobs, self._jobs = informer(manager, CRON_JOBS), informer(manager, JOBS)
        self._context = ControllerContext(
            manager.client, events.reporter("cronjob-controller"), CRON_JOBS
        )
        self.controller = Controller("cronjob", self.reconcile, workers=2)
        self.controller.watch(self._jobs, owner_key(CRON_JOBS.kind, CRON_JOBS.group))
        self.controller.informers.append(self._cron_jobs)
        self._cron_jobs.add_handler(self._changed)

    def _changed(self, old: AnyObject | None, new: AnyObject | None) -> None:
        """Reconcile it now, or at the next time of a schedule that has changed.

        Times of the new schedule that are over already are not made up for.
        """
        changed = new or old
        if changed is None:
            return
        after = 0.0
        if old is not None and new is not None and _times_of(old) != _times_of(new):
            now = self._context.now()
            with contextlib.suppress(ValueError):  # the reconcile reports it
                after = max(0.0, (next_look(new, schedule_of(new), now) or now) - now)
        self.controller.enqueue(*own_key(changed), after=after)

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one CronJob."""
        context = self._context
        owner = self._cron_jobs.store.get(*request)
        if owner is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        jobs = self._jobs.store.by_index(CONTROLLER, owner.metadata.uid)
        known: set[str] = {job.metadata.uid for job in jobs}
        gone: set[str] = set()
        for each in owner.status.get("active") or ():
            name, uid = each.get("name"), each.get("uid", "")
            if uid in known:
                continue
            if name and not await context.client.is_gone(JOBS, name, request.namespace, uid=uid):
                return NOT_CURRENT  # the cache does not have it yet
            gone.add(uid)
        plan = plan_cron_job(owner, jobs, gone, context.now())
        await self._carry_out(request, owner, plan)
        return requeue(plan.requeue_at, context.now())

    async def _carry_out(self, request: Request, owner: AnyObject, plan: Plan) -> None:
        context = self._context
        context.record(owner, *plan.events)
        kept, running = [
            await context.run_all(self._delete(request, owner, job) for job in jobs)
            for jobs in (plan.delete, plan.replace)
        ]
        errors, status = [*kept, *running], plan.status
        if plan.create is not None and not running:
            try:
                status = await self._start(request, owner, plan, plan.create)
            except ApiError as refusal:
                errors.append(refusal)
        await context.write_status(request, self._cron_jobs, owner, owner.status, status)
        for error in errors:
            if not is_namespace_terminating(error):
                raise error

    async def _delete(self, request: Request, owner: AnyObject, job: AnyObject) -> None:
        """Delete a Job and its pods.

        Raises:
            ApiError: The server refused; an event is recorded for that, too.
        """
        context, name, uid = self._context, job.metadata.name, job.metadata.uid
        deleting = context.client.delete(JOBS, name, request.namespace, uid=uid)
        try:
            deleted = await context.client.unless_gone(
                deleting, JOBS, name, request.namespace, uid=uid
            )
        except ApiError as error:
            text = f"Deleted job: {error.message}"
            context.record(owner, Event("FailedDelete", text, "Warning"))
            raise
        if deleted is not None:
            context.track_write(request, self._jobs, deleted)
            context.record(owner, Event("SuccessfulDelete", f"Deleted job {name}"))

    async def _start(
        self, request: Request, owner: AnyObject, plan: Plan, job: dict[str, Any]
    ) -> dict[str, Any]:
        """Create the Job and return the status with it; as it was if it is somebody else's.

        Raises:
            ApiError: The server refused; an event is recorded for that, too.
        """
        context, name = self._context, job["metadata"]["name"]
        try:
            created = await context.create(request, self._jobs, job)
        except AlreadyExistsError:
            created = await context.client.get(JOBS, name, request.namespace)
            owners = created["metadata"].get("ownerReferences") or ()
            if all(each["uid"] != owner.metadata.uid for each in owners):
                return plan.status
        except ApiError as error:
            if not is_namespace_terminating(error):
                text = f"Error creating job: {error.message}"
                context.record(owner, Event("FailedCreate", text, "Warning"))
            raise
        else:
            context.record(owner, Event("SuccessfulCreate", f"Created job {name}"))
        return with_started(plan.status, reference_to(created), plan.scheduled)


def _times_of(owner: AnyObject) -> tuple[Any, Any]:
    return owner.spec.get("schedule"), owner.spec.get("timeZone")
