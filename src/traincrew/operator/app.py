"""The operator as one coroutine: client, caches, one controller per kind, election, servers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from traincrew.engine.client import AiohttpTransport, Client
from traincrew.engine.clock import SYSTEM_CLOCK
from traincrew.engine.controller import Manager
from traincrew.engine.election import LeaderElector
from traincrew.engine.errors import ApiError, ForbiddenError, NotFoundError
from traincrew.engine.events import EventRecorder
from traincrew.engine.gate import Gate
from traincrew.engine.observability import Access, HealthServer, get_logger
from traincrew.engine.tasks import end_tasks
from traincrew.operator.gangs import GangSchedulers
from traincrew.operator.jobcounts import JobCounts
from traincrew.operator.kinds import all_kinds
from traincrew.operator.ownership import Ownership
from traincrew.operator.progress import ProgressService, Reports
from traincrew.operator.protection import protectors
from traincrew.operator.queues import KueueApi
from traincrew.operator.reconciler import Reconciler
from traincrew.operator.statuses import KEEPS_EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traincrew.engine.config import ClientConfig
    from traincrew.operator.kind import OperatedKind
    from traincrew.operator.options import OperatorOptions

USER_AGENT = "traincrew-operator"
DRAIN_SECONDS = 3.0
"""How long a shutdown waits for running reconciles, which take a fraction of a second."""
COMPONENT = "traincrew-operator"
"""Source component of events that belong to no kind."""


async def run_operator(
    config: ClientConfig,
    options: OperatorOptions,
    stop: asyncio.Event,
    *,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Run until stopped.

    With leader election there are two clients. Reconciles write through one that checks, right
    before every write, that this process is still the leader, and whose connections are broken when
    it is not; the Lease itself, and events (which report writes that have succeeded, and which no
    other process would report), use the other. Losing the Lease does not end this.

    Args:
        config: The API server.
        options: The options.
        stop: Set it to stop the operator: running reconciles finish, or are cancelled if they take
            too long, and the Lease is released. The next operator can continue from either.
        on_ready: Called once the caches are synced.

    Raises:
        ApiError: The API server cannot be used with this configuration.
    """
    # Over 60 lines: what is started last is ended first.
    async with contextlib.AsyncExitStack() as stack:
        always = await stack.enter_async_context(Client(config, user_agent=USER_AGENT))
        client, elector = always, None
        if options.leader_elect:
            namespace = options.lease_namespace or config.namespace
            elector = LeaderElector(
                always,
                namespace,
                options.lease_name,
                options.identity,
                duration=options.lease_duration,
                renew_deadline=options.renew_deadline,
                retry_period=options.retry_period,
            )
            client = await stack.enter_async_context(
                Client(
                    config,
                    transport=AiohttpTransport(config, delivery_limit=elector.margin),
                    user_agent=USER_AGENT,
                    guard=elector.ensure_leader,
                )
            )
        manager = Manager(client, elector=elector)
        always.metrics = manager.metrics
        gate = Gate()  # one for all kinds: they share the API server
        events = EventRecorder(always, COMPONENT, gate=gate, metrics=manager.metrics)
        reports, certificate = None, ""
        if options.progress is not None:
            reports = Reports(options.progress.metrics)
            service = ProgressService(options.progress, always, client, reports)
            certificate = await service.prepare()
            manager.metrics.add(reports)
            manager.add_runnable(service.run)
        kinds, counts = all_kinds(options, certificate), JobCounts()
        manager.metrics.add(counts)
        schedulers = GangSchedulers(client, options.gang_scheduling, SYSTEM_CLOCK)
        kueue = KueueApi(client, SYSTEM_CLOCK, options.namespace)
        manager.add_runnable(kueue.run)
        for kind in kinds:
            owner, schema = None, lambda: KEEPS_EVERYTHING
            if kind.project is not None:
                owner = Ownership(manager, kind, kind.project)
                schema = owner.status_schema
            reconciler = Reconciler(
                client,
                manager,
                events,
                kind if owner is None else owner.guarded(),
                gate=gate,
                namespace=options.namespace,
                reports=reports,
                schedulers=schedulers,
                kueue=kueue,
                status_schema=schema,
                workers=options.workers,
            )
            if owner is not None:
                owner.serve(reconciler)
                for protector in protectors(
                    client,
                    manager,
                    reconciler.informer,
                    owner,
                    kind=kind,
                    namespace=options.namespace,
                ):
                    owner.serve(protector)
            counts.add(kind.resource.kind, reconciler.jobs)
        for server in _servers(options, manager, always):
            manager.add_runnable(server.run, needs_leadership=False)
        work = [
            asyncio.create_task(manager.run(), name="manager"),
            asyncio.create_task(_missing_definitions(client, kinds, options), name="definitions"),
            asyncio.create_task(_announce(manager, on_ready), name="ready"),
        ]
        recording = asyncio.create_task(events.run(), name="events")
        stopping = asyncio.create_task(stop.wait())
        try:
            await _wait_for_end(stopping, [*work, recording])
            await manager.drain(DRAIN_SECONDS)
        finally:
            try:
                await end_tasks(stopping, *work)
            finally:
                # Last of all: reconciles that were cancelled report what they have written.
                await end_tasks(recording)


async def _wait_for_end(stopping: asyncio.Task[bool], work: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the stop event, or for the first task that fails."""
    pending: set[asyncio.Task[Any]] = {stopping, *work}
    while not stopping.done():
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task


async def _missing_definitions(
    client: Client, kinds: Sequence[OperatedKind], options: OperatorOptions
) -> None:
    """Log a warning while a kind cannot be watched, because it is not installed or forbidden."""
    log = get_logger()
    for kind in kinds:
        resource = kind.resource
        logged = ""
        while True:
            try:
                path = resource.path(options.namespace)
                await client.request("GET", path, params={"limit": 1})
            except NotFoundError:
                text = "the CustomResourceDefinition is not installed: kubectl apply -f deploy/"
                if kind.project is not None:
                    text = f"the CustomResourceDefinition of {kind.project.name} is not installed"
            except ForbiddenError as error:
                text = f"{error.message}; kubectl apply -f deploy/ gives the operator its role"
            except ApiError:
                text = ""  # informers report a server that cannot be reached
            else:
                break
            if text and text != logged:
                log.warning("waiting for a kind", kind=resource.kind, reason=text)
                logged = text
            await asyncio.sleep(2.0)


async def _announce(manager: Manager, on_ready: Callable[[], None] | None) -> None:
    await manager.wait_synced()
    get_logger().info("operator is ready")
    if on_ready is not None:
        on_ready()


def _servers(options: OperatorOptions, manager: Manager, client: Client) -> Iterator[HealthServer]:
    """Yield the servers of metrics and health.

    Args:
        options: The addresses.
        manager: Has the metrics.
        client: Asks who may read them; it writes without being the leader.
    """
    secure = options.metrics_secure_address
    if options.metrics_address is not None:
        host, port = listen_address(options.metrics_address)
        yield HealthServer(
            manager.metrics if secure is None else None,
            ready={"caches": lambda: manager.synced},
            host=host,
            port=port,
        )
    if secure is not None:
        from traincrew.operator.metricsaccess import MetricsAccess, self_signed

        host, port = listen_address(secure)
        access = Access(self_signed(host), MetricsAccess(client).check)
        yield HealthServer(manager.metrics, host=host, port=port, access=access)


def listen_address(text: str) -> tuple[str, int]:
    """Split ``host:port``; without a host, as in ``:8080``, it means all addresses.

    Raises:
        ValueError: The text has neither form.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise ValueError(f"metrics address {text!r}: write HOST:PORT or :PORT")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - probes come from outside
