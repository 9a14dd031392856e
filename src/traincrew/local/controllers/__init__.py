"""The built-in controllers of the embedded cluster, over the public API only.

Each has a pure half that decides (what to make, delete and report, from the objects and the time)
and a small one that reads caches and writes. `shell` holds what the second halves share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.controllers.deployment.controller import add_deployment_controller
from traincrew.local.controllers.disruption import add_disruption_controller
from traincrew.local.controllers.endpoints.controller import add_endpoints_controller
from traincrew.local.controllers.garbage.controller import add_garbage_collector
from traincrew.local.controllers.job.controller import add_job_controller
from traincrew.local.controllers.replicas.controller import add_replica_controllers
from traincrew.local.controllers.service_accounts import (
    NO_AUTHORITY,
    add_service_account_controller,
)
from traincrew.local.controllers.statefulset.controller import add_stateful_set_controller
from traincrew.local.controllers.ttl import add_ttl_controller
from traincrew.local.controllers.volume_claims import add_volume_claim_controller

if TYPE_CHECKING:
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.manager import Manager


def add_controllers(
    manager: Manager, events: EventRecorder, *, authority: str = NO_AUTHORITY
) -> None:
    """Register every built-in controller; before `Manager.run`.

    Args:
        manager: Runs them.
        events: Where they record theirs.
        authority: The certificates by which pods know the API server (PEM).
    """
    add_job_controller(manager, events)
    add_stateful_set_controller(manager, events)
    add_replica_controllers(manager, events)
    add_deployment_controller(manager, events)
    add_endpoints_controller(manager, events)
    add_service_account_controller(manager, events, authority)
    add_garbage_collector(manager, events)
    add_disruption_controller(manager, events)
    add_ttl_controller(manager, events)
    add_volume_claim_controller(manager, events)
