"""The built-in controllers of the embedded cluster, over the public API only.

Each has a pure part that plans (what to create, delete and report, given the objects and the time)
and a small part that reads caches and writes. `context` is what the second parts share.

A folder whose module `controller` has a function ``add(manager, events)`` is discovered; those that
are given more, or are a single module, are named here.
"""

from __future__ import annotations

import time
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from traincrew.local.controllers.aggregation import add_aggregation_controller
from traincrew.local.controllers.certificates.controller import add_certificate_controller
from traincrew.local.controllers.disruption import add_disruption_controller
from traincrew.local.controllers.garbage.controller import add_garbage_collector
from traincrew.local.controllers.podgroups import add_podgroup_protection
from traincrew.local.controllers.quota.controller import add_quota_controller
from traincrew.local.controllers.service_accounts import (
    add_service_account_controller,
)
from traincrew.local.controllers.ttl import add_ttl_controller
from traincrew.local.controllers.volumes.binder import add_binders
from traincrew.local.controllers.volumes.ephemeral import add_ephemeral_controller
from traincrew.local.controllers.volumes.protection import add_protection_controllers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.local.certificaterequests import Signer


def add_controllers(
    manager: Manager,
    events: EventRecorder,
    *,
    authority: str = "",
    signer: Callable[[], Awaitable[Signer]] | None = None,
    clock: Callable[[], float] = time.time,
) -> Callable[[], None]:
    """Register every built-in controller; must be called before `Manager.run`.

    Args:
        manager: Runs them.
        events: Records their events.
        authority: CA bundle with which pods verify the API server (PEM); empty without TLS.
        signer: Returns the CA that signs approved certificate requests; None signs none.
        clock: Seconds since the epoch, by which finished Jobs expire. Others have the machine's.

    Returns:
        What to call when the clock was moved.
    """
    for add in discovered():
        add(manager, events)
    add_service_account_controller(manager, events, authority)
    if signer is not None:
        add_certificate_controller(manager, events, signer)
    quota = add_quota_controller(manager)
    add_garbage_collector(manager, events, quota.touch)
    add_disruption_controller(manager, events)
    look_again = add_ttl_controller(manager, events, clock)
    add_binders(manager, events)
    add_ephemeral_controller(manager, events)
    add_protection_controllers(manager, events)
    add_podgroup_protection(manager, events)
    add_aggregation_controller(manager, events)
    return look_again


def discovered() -> Iterator[Callable[[Manager, EventRecorder], None]]:
    """Yield the function `add` of the module `controller` of each folder that has one."""
    for folder in iter_modules(__path__, f"{__name__}."):
        name = f"{folder.name}.controller"
        if folder.ispkg and find_spec(name) is not None:
            add = getattr(import_module(name), "add", None)
            if add is not None:
                yield add
