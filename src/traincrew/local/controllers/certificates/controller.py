"""Signs the requests that are approved, by a CA that is made with the first one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from traincrew.engine.controller import Controller, Request, own_key
from traincrew.engine.errors import AlreadyExistsError, NotFoundError
from traincrew.engine.resources import CONFIG_MAPS, SECRETS
from traincrew.local.certificaterequests import Signer, new_signer
from traincrew.local.controllers.context import NOT_CURRENT, ControllerContext
from traincrew.local.controllers.informers import informer

from .plan import CERTIFICATE_SIGNING_REQUESTS, Failure, failed, plan

if TYPE_CHECKING:
    from traincrew.engine.client import Client
    from traincrew.engine.controller import Manager, Result
    from traincrew.engine.events import EventRecorder

_NAMESPACE = "kube-system"
_SECRET = "cluster-signer"  # noqa: S105 - its name
_LIFETIME = timedelta(days=3650)
# The clocks of virtual machines may jump.
_BACKDATED = timedelta(days=1)


class ClusterSigner:
    """The CA of the signers: a Secret, and part of ``client-ca-file`` (see `load`).

    It is another one than that of the API server, whose key nobody has.

    Args:
        client: The API server.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def load(self) -> Signer:
        """Return the CA; the first call creates it.

        Its certificate is added to the CAs by which extension API servers trust clients.

        Raises:
            ApiError: The server refused.
        """
        data = await self._read()
        if data is None:
            now = datetime.now(UTC)
            name = f"traincrew-signer-{os.urandom(4).hex()}"
            made = await asyncio.to_thread(new_signer, name, now - _BACKDATED, now + _LIFETIME)
            secret: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": _SECRET, "namespace": _NAMESPACE},
                "type": "kubernetes.io/tls",
                "stringData": {"tls.crt": made.certificate, "tls.key": made.key},
            }
            with contextlib.suppress(AlreadyExistsError):
                await self._client.create(SECRETS, secret)
            data = await self._read() or {}
        signer = Signer(
            *(base64.b64decode(data.get(key, "")).decode() for key in ("tls.crt", "tls.key"))
        )
        await self._publish(signer.certificate)
        return signer

    async def _read(self) -> dict[str, str] | None:
        try:
            secret = await self._client.get(SECRETS, _SECRET, _NAMESPACE)
        except NotFoundError:
            return None
        data: dict[str, str] = secret.get("data") or {}
        return data

    async def _publish(self, certificate: str) -> None:
        name, key = "extension-apiserver-authentication", "client-ca-file"
        try:
            known = await self._client.get(CONFIG_MAPS, name, _NAMESPACE)
        except NotFoundError:
            return
        trusted = (known.get("data") or {}).get(key, "")
        if certificate in trusted:
            return
        version = {"resourceVersion": known["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "data": {key: trusted + certificate}}
        await self._client.patch(CONFIG_MAPS, name, _NAMESPACE, patch=patch)


def add(manager: Manager, events: EventRecorder) -> None:
    """Sign approved CertificateSigningRequests of the signers that a cluster has."""
    requests = informer(manager, CERTIFICATE_SIGNING_REQUESTS)
    context = ControllerContext(
        manager.client, events.reporter("csrsigning-controller"), CERTIFICATE_SIGNING_REQUESTS
    )
    cluster_signer = ClusterSigner(manager.client)

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
            signer = await cluster_signer.load()
            try:
                signed = await asyncio.to_thread(signer.sign, *todo)
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
