"""Signs the requests that are approved."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import informer

from .plan import CERTIFICATE_SIGNING_REQUESTS, Failure, failed, plan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder
    from traincrew.local.certificaterequests import Signer


def add_certificate_controller(
    manager: Manager, events: EventRecorder, signer: Callable[[], Awaitable[Signer]]
) -> None:
    """Sign approved CertificateSigningRequests of the signers that a cluster has.

    Args:
        manager: Runs the controller.
        events: Records its events.
        signer: Returns the CA.
    """
    requests = informer(manager, CERTIFICATE_SIGNING_REQUESTS)
    context = ControllerContext(
        manager.client, events.reporter("csrsigning-controller"), CERTIFICATE_SIGNING_REQUESTS
    )

    async def reconcile(request: Request) -> Result | None:
        found = requests.store.get(None, request.name)
        if found is None:
            context.forget(request)
            return None
        if not context.is_current(request):
            return NOT_CURRENT
        now = context.now()
        todo = plan(found, now)
        if todo is None:
            return None
        if isinstance(todo, Failure):
            status = failed(found.status, todo, now)
        else:
            authority = await signer()
            try:
                signed = await asyncio.to_thread(authority.sign, *todo)
            except (TypeError, ValueError) as error:
                status = failed(found.status, Failure(f"it cannot be signed: {error}"), now)
            else:
                content = base64.b64encode(signed.encode()).decode()
                status = {**found.status, "certificate": content}
        version = found.metadata.resource_version
        await context.write_status(request, requests, found, found.status, status, version=version)
        return None

    controller = Controller("certificates", reconcile)
    controller.watch(requests, own_key)
    manager.add(controller)
