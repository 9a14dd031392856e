"""The operator as one coroutine: client, caches, one controller per kind, election, servers."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from traincrew.engine.client import Client
from traincrew.engine.events import EventRecorder
from traincrew.engine.lease import LeaderElector
from traincrew.engine.logs import get_logger
from traincrew.engine.manager import Manager
from traincrew.operator.kinds import all_kinds
from traincrew.operator.reconciler import Reconciler

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.config import ClientConfig
    from traincrew.operator.options import OperatorOptions

COMPONENT = "chainer-job-controller"
"""Source of events, as users of the chainer-operator know it."""


async def run_operator(
    config: ClientConfig,
    options: OperatorOptions,
    stop: asyncio.Event,
    *,
    on_ready: Callable[[], None] | None = None,
) -> None:
    """Run until told to stop.

    Args:
        config: The API server.
        options: What can be chosen.
        stop: Set it to end the operator: what it is doing is finished or given up, both of which
            the next operator can continue from, and the Lease is released.
        on_ready: Called once the caches are filled.

    Raises:
        LeadershipLost: Another operator may act now; this process has to end.
        ApiError: The API server cannot be used with this configuration.
    """
    async with Client(config, user_agent="traincrew-operator") as client:
        elector = None
        if options.leader_elect:
            namespace = options.lease_namespace or config.namespace
            elector = LeaderElector(client, namespace, options.lease_name, options.identity)
        manager = Manager(client, elector=elector)
        events = EventRecorder(client, COMPONENT, metrics=manager.metrics)
        manager.add_runnable(events.run)
        for kind in all_kinds(options):
            Reconciler(
                client,
                manager,
                events,
                kind,
                namespace=options.namespace,
                workers=options.workers,
            )
        running = asyncio.create_task(manager.run(), name="manager")
        ready = asyncio.create_task(_announce(manager, on_ready))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
        finally:
            for task in (stopping, ready, running):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


async def _announce(manager: Manager, on_ready: Callable[[], None] | None) -> None:
    await manager.wait_synced()
    get_logger().info("operator is ready")
    if on_ready is not None:
        on_ready()
