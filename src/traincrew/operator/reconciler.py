"""Reconciles training jobs: request -> observed -> plan -> writes, the same for every kind.

All decisions are in the plan, all I/O is here. Three rules keep it safe without locks or journals:

- A missing child is *created*, never applied: server-side apply would take over an object of that
  name that is managed by somebody else. Instead, the API responds with 409, and the object is not
  modified.
- In a child that exists, only the fields that differ are replaced, by a JSON patch. What others
  wrote elsewhere in the object stays. Patches and deletions require the observed resourceVersion.
- The status is written once, at the end, and requires the version it was derived from. Events are
  emitted after the write that they report.

So a reconcile based on a stale cache, or a late write of a former leader, results in a conflict and
does not undo the changes of others.
"""
# Over 400 lines: one reconcile from request to status; its steps share the state of one job.

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec import structs

from traincrew.engine import mergepatch
from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.controller import (
    FOLLOWING,
    Controller,
    ExpectedError,
    Request,
    Result,
    WriteTracker,
)
from traincrew.engine.gate import Gate
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import PODS
from traincrew.operator.checks import LEFTOVER_SECONDS, Checks
from traincrew.operator.children import REFUSED, ChildWriter, NamespaceTerminatingError
from traincrew.operator.deferral import Deferral
from traincrew.operator.gangs import GROUP_GONE_SECONDS, Gangs, GangSchedulers
from traincrew.operator.jobs import JobGoneError, JobWriter, request_of
from traincrew.operator.jobstate import JobState
from traincrew.operator.observer import Observer
from traincrew.operator.options import WORKERS
from traincrew.operator.pace import MAX_REST, Pace
from traincrew.operator.progress import Target
from traincrew.operator.queues import KueueApi, Queues
from traincrew.operator.statuses import KEEPS_EVERYTHING, StatusWriter
from traincrew.plan.shared.model import (
    ChildKey,
    Confirm,
    GangState,
    GroupQuery,
    LogQuery,
    ObjectQuery,
    Observed,
    OutputQuery,
    Plan,
    QueueQuery,
    Refusal,
    SpecPatch,
)
from traincrew.plan.shared.schedulers import POD_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from traincrew.api.meta import CustomObject
    from traincrew.engine.cache import Informer, Store
    from traincrew.engine.client import Client
    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.operator.kind import OperatedKind
    from traincrew.operator.progress import Reports
    from traincrew.operator.statuses import Schema
    from traincrew.plan.shared.kind import Written
    from traincrew.plan.shared.model import Decision, GroupWrite, Write

TERMINATING_SECONDS = 10.0
"""Seconds until a job whose namespace is terminating is reconciled again, if it is still there."""


class RefusedError(ExpectedError):
    """The API refused a write that may be accepted later; retried with back-off."""


class Reconciler:
    """Reconciles the jobs of one kind.

    Args:
        client: The API server.
        manager: Where informers and the controller run.
        events: Where events are recorded.
        kind: The kind.
        gate: Defers writes that can wait while others are urgent; its own by default.
        namespace: Only jobs of this namespace; all by default.
        reports: What training programs report; nothing by default.
        schedulers: Place pods together; none by default.
        kueue: Admits jobs in queues; it is not watched by default.
        status_schema: Returns the schema of the status in the kind's definition.
        workers: Maximum number of jobs reconciled at the same time.
        clock: Source of time.
    """

    def __init__(
        self,
        client: Client,
        manager: Manager,
        events: EventRecorder,
        kind: OperatedKind,
        *,
        gate: Gate | None = None,
        namespace: str | None = None,
        reports: Reports | None = None,
        schedulers: GangSchedulers | None = None,
        kueue: KueueApi | None = None,
        status_schema: Callable[[], Schema] = lambda: KEEPS_EVERYTHING,
        workers: int = WORKERS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._events = events.reporter(kind.component)
        self._kind = kind
        self._clock = clock
        self._log = get_logger()
        self._tracker = WriteTracker(clock=clock, metrics=manager.metrics)
        self._resources = {resource.kind: resource for resource, _ in kind.children}
        self._resources[PODS.kind] = PODS
        self._resources |= {resource.kind: resource for resource in kind.unwatched}
        self._gate = gate = gate or Gate()
        self._writer = ChildWriter(client, self._resources, gate, unwatched=kind.unwatched)
        self._memories: dict[Request, JobState] = {}

        self.controller = Controller(
            kind.resource.kind.lower(), self.reconcile, workers=workers, clock=clock
        )
        self._job_writer = JobWriter(client, kind.resource, self._tracker)
        self._deferral = Deferral(gate, clock, self.controller.enqueue)
        self._statuses = StatusWriter(self._job_writer, self._deferral, self._events, status_schema)
        self._pace = Pace(clock)
        self._checks = Checks(self._writer, self._deferral, clock)
        self._observer = Observer(
            client,
            manager,
            kind,
            self._writer,
            self._tracker,
            namespace=namespace,
            reports=reports,
            clock=clock,
        )
        known = schedulers or GangSchedulers(client, "none", clock)
        self._gangs = Gangs(client, known, gate, clock)
        api = kueue or KueueApi(client, clock, namespace)
        self._queues = Queues(client, api, kind, self.controller.enqueue, clock)
        self._reports = reports
        if reports is not None:
            reports.add(self._target())
        self.controller.watch(self._observer.jobs, lambda job: [request_of(job)])
        for informer in self._observer.watched.values():
            self.controller.watch(informer, self._observer.job_of, priority=FOLLOWING)
        manager.add(self.controller)
        manager.on_end_of_term(self._end_term)

    @property
    def informer(self) -> Informer[Any]:
        """Watches the jobs."""
        return self._observer.jobs

    @property
    def jobs(self) -> Store[Any]:
        """The cache of jobs."""
        return self._observer.jobs.store

    def requests(self) -> list[Request]:
        """Return the requests for all jobs."""
        return [request_of(job) for job in self.jobs.list()]

    def _end_term(self) -> None:
        """Drop what is remembered of jobs: another operator may change them now."""
        self._memories.clear()
        self._tracker.clear()
        self._deferral.clear()
        self._queues.forget()
        if self._reports is not None:
            self._reports.clear()

    def _target(self) -> Target:
        return Target(
            resource=self._kind.resource,
            find=lambda request: self._observer.jobs.store.get(request.namespace, request.name),
            pod=self._observer.pod_of,
            enqueue=self.controller.enqueue,
        )

    # -- one reconcile ------------------------------------------------------------------------

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile one job."""
        job = self._observer.jobs.store.get(request.namespace, request.name)
        if job is None:
            self._tracker.forget(request)
            self._memories.pop(request, None)
            if self._reports is not None:
                self._reports.forget(self._kind.resource, request)
            self._deferral.forget(request, "children", "checks", "foresight", "status")
            self._deferral.status_settled(request)
            left = await self._queues.let_go(request, "")
            return Result(requeue_after=left) if left is not None else None
        try:
            return await self._reconcile(request, job)
        except JobGoneError:
            return Result(requeue_after=1.0)  # until the cache shows the deletion as well
        except NamespaceTerminatingError:
            # The children go before the job does. Each deletion requeues it, and is no reason to
            # ask again; nobody needs to hear of it.
            rest = self._clock.monotonic() + TERMINATING_SECONDS
            self._memories.setdefault(request, JobState()).earliest_reconcile = rest
            return Result(requeue_after=TERMINATING_SECONDS)

    async def _reconcile(self, request: Request, job: CustomObject) -> Result | None:
        if self._observer.is_stale(request):
            return Result(requeue_after=1.0)
        memory = self._memories.setdefault(request, JobState())
        started = self._clock.monotonic()
        if (wait := memory.earliest_reconcile - started) > 0:
            return Result(requeue_after=wait)
        now = self._clock.now()
        observed = self._observer.observe(request, job, memory)
        if await self._observer.restore_labels(request, observed, memory):
            return Result(requeue_after=1.0)  # or earlier, when the caches contain them again
        left = await self._queues.let_go(request, job.metadata.uid, observed.children.values())
        if left is not None:
            self.controller.enqueue(request, after=left)
        observed, decision, reading = await self._decide(request, observed, now, memory)
        worked = self._clock.monotonic() - started - reading  # waiting for answers is no work
        if isinstance(decision, SpecPatch):
            try:
                await self._job_writer.patch(job, decision.patch)
            except REFUSED as error:
                # Users do not see it in the spec, but the job can run with it.
                self._log.warning("spec not written", error=error.message)
                spec = mergepatch.apply(job.spec, decision.patch["spec"])
                observed = structs.replace(observed, job=structs.replace(job, spec=spec))
                observed, decision, _ = await self._decide(request, observed, now, memory)
            else:
                return None  # the change requeues the job; then the plan is for the new spec
        if not isinstance(decision, Plan):
            return Result(requeue_after=1.0)  # the caches have to catch up first
        memory.earliest_reconcile = started + reading + self._pace.rest(request, worked)
        return await self._act(request, observed, decision, now, memory)

    async def _act(
        self,
        request: Request,
        observed: Observed,
        plan: Plan,
        now: datetime,
        memory: JobState,
    ) -> Result | None:
        """Execute a plan; return when to reconcile the job again.

        Args:
            request: The job.
            observed: What the plan is based on.
            plan: The plan.
            now: Its time.
            memory: What is remembered of the job.
        """
        job = observed.job
        held = self._deferral.delay(request, "children") if plan.later else None
        if held:
            plan.later = []
        refusals: dict[ChildKey, Refusal] = {}
        seen = await self._write_first(request, observed, plan, memory)
        if isinstance(seen, Observed):
            again = self._kind.plan(seen, now)
            if not isinstance(again, Plan):
                return Result(requeue_after=1.0)
            observed, plan = seen, again
        else:
            refusals = seen
        refusals = refusals or await self._write_children(request, observed, plan, memory)
        known = await self._checks.ask(request, observed, plan, memory) if not refusals else None
        if refusals:
            known = structs.replace(observed, refusals=refusals)
        if known is not None:
            again = self._kind.plan(known, now)
            if not isinstance(again, Plan):
                return Result(requeue_after=1.0)
            plan = again
        version, later = await self._statuses.write(job, plan)
        if plan.delete_job:
            await self._job_writer.delete(job, version)
            self._report(job, "Delete", [ChildKey(self._kind.resource.kind, job.metadata.name)])
            return None
        waiting = any(refusal.leftover for refusal in refusals.values())
        for key, refusal in refusals.items():
            if _may_be_accepted(refusal):
                raise RefusedError(f"{key.kind} {key.name}: {refusal.message}")
        if self._gate.in_burst:  # what its status says waits anyway
            rest = self._clock.monotonic() + MAX_REST
            memory.earliest_reconcile = max(memory.earliest_reconcile, rest)
        waits = [
            seconds
            for seconds in (
                plan.requeue_after,
                later,
                held or None,
                LEFTOVER_SECONDS if waiting else None,
                GROUP_GONE_SECONDS if plan.group is not None and plan.group.delete else None,
                *self._checks.waits(memory),
            )
            if seconds is not None
        ]
        return Result(requeue_after=max(0.0, min(waits))) if waits else None

    async def _write_first(
        self, request: Request, observed: Observed, plan: Plan, memory: JobState
    ) -> Observed | dict[ChildKey, Refusal]:
        """Write PodGroup and Workload; return what was refused, or what is known without the right.

        The job is planned again with the second: as if there were no such scheduler or queue.
        """
        refusals: dict[ChildKey, Refusal] = {}
        if plan.group is not None:
            found = await self._write_group(plan.group, observed, memory)
            if isinstance(found, Observed):
                return found
            refusals = found
        if plan.queue and not refusals:
            problem = await self._queues.write(plan.queue, request, memory)
            if problem is not None:
                return structs.replace(observed, queue=problem)
        return refusals

    async def _write_group(
        self, group: GroupWrite, observed: Observed, memory: JobState
    ) -> Observed | dict[ChildKey, Refusal]:
        """Write the PodGroup; return what was refused, or what is known without the right to."""
        answer = await self._gangs.write(group, memory)
        if answer is None:
            return {}
        if isinstance(answer, GangState):
            return structs.replace(observed, gang=answer)
        create = group.write.create if group.write is not None else None
        name = create["metadata"]["name"] if create is not None else ""
        if group.found is not None:
            name = group.found.metadata.name
        return {ChildKey(POD_GROUP, name): answer}

    async def _decide(
        self, request: Request, observed: Observed, now: datetime, memory: JobState
    ) -> tuple[Observed, Decision, float]:
        """Decide what a job needs; answer the questions of its plan, each kind of them once.

        Returns:
            The observed state with the answers, the decision, and the seconds that the answers
            took. The decision is a question if the caches have to catch up first.
        """
        asked: set[type] = set()
        reading = 0.0
        while True:
            decision = self._kind.plan(observed, now)
            if isinstance(decision, Plan | SpecPatch) or type(decision) in asked:
                return observed, decision, reading
            asked.add(type(decision))
            began = self._clock.monotonic()
            match decision:
                case Confirm():
                    job, unseen = observed.job, decision.unseen
                    if await self._observer.restore_unseen(request, job, unseen):
                        return observed, decision, reading
                    observed = await self._observer.confirm_pods(request, observed)
                case ObjectQuery():
                    objects = await self._observer.read_objects(decision.keys, request.namespace)
                    observed = structs.replace(observed, objects=objects)
                case GroupQuery():
                    gang = await self._gangs.answer(decision, request.namespace, memory)
                    observed = structs.replace(observed, gang=gang)
                case QueueQuery():
                    queue = await self._queues.answer(decision, request, memory)
                    observed = structs.replace(observed, queue=queue)
                case LogQuery():
                    await self._observer.read_logs(request, decision.keys, memory)
                    observed = structs.replace(observed, logs=dict(memory.logs))
                case OutputQuery():
                    await self._observer.read_outputs(request, decision, memory)
                    observed = structs.replace(observed, outputs=dict(memory.outputs))
            reading += self._clock.monotonic() - began

    # -- children -----------------------------------------------------------------------------

    async def _write_children(
        self, request: Request, observed: Observed, plan: Plan, memory: JobState
    ) -> dict[ChildKey, Refusal]:
        known = memory.children_of(observed.job)
        await self._ensure_job_exists(observed.job, plan, known)
        refusals: dict[ChildKey, Refusal] = {}
        created: list[ChildKey] = []  # reported together, also if a later stage fails
        try:
            for stage in plan.stages:
                refusals = await self._write_stage(request, observed, stage, memory, created)
                if refusals:
                    break
            late = await self._write_stage(
                request, observed, plan.later, memory, created, urgent=False
            )
        finally:
            self._report(observed.job, "Create", created)
        for key, refusal in late.items():
            refusals[key] = structs.replace(refusal, permanent=False)
        if refusals:
            return refusals
        await self._delete_children(request, observed, plan, memory)
        return {}

    async def _delete_children(
        self, request: Request, observed: Observed, plan: Plan, memory: JobState
    ) -> None:
        # The caches may show for a while that they are not being deleted yet.
        memory.deleted &= set(plan.delete.values())
        wanted = {key: uid for key, uid in plan.delete.items() if uid not in memory.deleted}
        gone = await self._writer.together(
            self._writer.delete(
                key,
                request.namespace,
                uid,
                None if plan.any_version else _version(observed, key),
                foreground=plan.foreground,
                grace_seconds=plan.grace_seconds,
            )
            for key, uid in wanted.items()
        )
        memory.deleted |= set(wanted.values())
        self._report(observed.job, "Delete", [key for key in gone if key is not None])

    async def _write_stage(
        self,
        request: Request,
        observed: Observed,
        stage: Sequence[Write],
        memory: JobState,
        created: list[ChildKey],
        *,
        urgent: bool = True,
    ) -> dict[ChildKey, Refusal]:
        """Send writes concurrently; add what is new to `created`, and return what was refused."""
        known = memory.children_of(observed.job)
        refusals = {}
        for answer in await self._writer.write(stage, observed, urgent=urgent):
            if isinstance(answer.result, Refusal):
                refusals[answer.key] = answer.result
            elif answer.result is not None:
                if self._resources[answer.key.kind] not in self._kind.unwatched:
                    self._note(request, answer.key, answer.result, memory)
                known.add(answer.key)
            if answer.new:
                created.append(answer.key)
        return refusals

    async def _ensure_job_exists(self, job: CustomObject, plan: Plan, known: set[ChildKey]) -> None:
        """Check that the job still exists before any of its children is recreated.

        Deletions of children arrive by other watches than that of their job, and may arrive first:
        a child created then has no owner any more, and conflicts with a new job of that name.

        Raises:
            JobGoneError: It does not exist, or is being deleted.
        """
        metadata = job.metadata
        writes = [*chain.from_iterable(plan.stages), *plan.later]
        creates = [write.create for write in writes if write.create]
        if not any(ChildKey.of(document) in known for document in creates):
            return
        # The operator has the permission to list jobs, but not to get them.
        found = await self._client.list(
            self._kind.resource,
            metadata.namespace,
            field_selector=f"metadata.name={metadata.name}",
        )
        for item in found["items"]:
            theirs = item["metadata"]
            if theirs["uid"] == metadata.uid and "deletionTimestamp" not in theirs:
                return
        raise JobGoneError

    def _report(self, job: CustomObject, what: Written, keys: Sequence[ChildKey]) -> None:
        for event in self._kind.written(what, keys):
            self._events.event(
                self._job_writer.reference(job), event.type, event.reason, event.message
            )

    def _note(
        self, request: Request, key: ChildKey, written: dict[str, Any], memory: JobState
    ) -> None:
        self._tracker.note(self._resources[key.kind], written, request)
        metadata = written["metadata"]
        if generation := metadata.get("generation"):
            memory.generations[metadata["uid"]] = generation


def _may_be_accepted(refusal: Refusal) -> bool:
    """Return whether a write may be accepted by the time of a retry, as far as is known."""
    return not (refusal.foreign or refusal.permanent or refusal.leftover)


def _version(observed: Observed, key: ChildKey) -> str | None:
    """Return the version to delete; None for pods of other controllers, which only end them."""
    child = observed.children.get(key)
    return child.metadata.resource_version if child is not None else None
