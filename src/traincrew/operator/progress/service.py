"""The endpoint as a part of the operator: its CA, its address for pods, and its server.

Only the leader serves: it is the only one that writes a status. Behind a Service, the leader is its
one endpoint, so that other replicas get no reports.
"""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import ENDPOINT_SLICES, SERVICES
from traincrew.operator.progress.certificates import Authority, stored_authority

if TYPE_CHECKING:
    from traincrew.engine.client import Client
    from traincrew.operator.options import ProgressOptions
    from traincrew.operator.progress.reports import Reports

MANAGED_BY = "traincrew-progress"
PORT_NAME = "progress"
_RETRY_SECONDS = 2.0
_REFRESH_SECONDS = 60.0
"""An EndpointSlice that somebody has deleted is missing for at most as long."""


class ProgressService:
    """Serves while this process leads.

    Args:
        options: The options.
        reviews: Reviews tokens.
        writes: Writes the endpoint of the Service, if this process leads.
        reports: Keeps the reports.
    """

    def __init__(
        self, options: ProgressOptions, reviews: Client, writes: Client, reports: Reports
    ) -> None:
        self._options = options
        self._reviews = reviews
        self._writes = writes
        self._reports = reports
        self._authority: Authority

    async def prepare(self) -> str:
        """Return the certificate that pods have to trust.

        Raises:
            ApiError: The Secret with the CA can be neither read nor created.
        """
        options = self._options
        while True:
            try:
                self._authority = await stored_authority(
                    self._reviews, options.namespace, options.secret
                )
            except ApiError as error:
                if not error.transient:
                    raise
                get_logger().warning("waiting for the API server", error=error.message)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return self._authority.certificate

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            OSError: The address cannot be used.
        """
        from traincrew.operator.progress.server import ProgressServer

        options = self._options
        server = ProgressServer(self._reviews, self._reports)
        context = self._authority.context([options.name])
        await server.start(options.host, options.port, context)
        get_logger().info("training programs may report their progress", url=options.url)
        try:
            while True:
                wait = _REFRESH_SECONDS
                if options.service:
                    try:
                        await self._publish()
                    except ApiError as error:
                        get_logger().warning(
                            "pods cannot report their progress yet",
                            service=options.service,
                            error=error.message,
                        )
                        wait = _RETRY_SECONDS
                await asyncio.sleep(wait)
        finally:
            await server.stop()

    async def _publish(self) -> None:
        """Make this process the endpoint of the Service."""
        options = self._options
        service = await self._writes.get(SERVICES, options.service, options.namespace)
        wanted = endpoint_slice(options, service)
        changes = {key: wanted[key] for key in ("metadata", "endpoints", "ports")}
        try:
            await self._writes.patch(
                ENDPOINT_SLICES, options.service, options.namespace, patch=changes
            )
        except NotFoundError:
            await self._writes.create(ENDPOINT_SLICES, wanted)


def endpoint_slice(options: ProgressOptions, service: dict[str, Any]) -> dict[str, Any]:
    """Return the endpoints of the Service: this process alone. They are deleted with the Service.

    Args:
        options: The options.
        service: The Service.
    """
    version = ip_address(options.host).version
    owner = {"apiVersion": "v1", "kind": "Service", "name": options.service}
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.kind,
        "metadata": {
            "name": options.service,
            "namespace": options.namespace,
            "labels": {
                "kubernetes.io/service-name": options.service,
                "endpointslice.kubernetes.io/managed-by": MANAGED_BY,
            },
            "ownerReferences": [{**owner, "uid": service["metadata"]["uid"]}],
        },
        "addressType": f"IPv{version}",
        "endpoints": [{"addresses": [options.host], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": options.port, "protocol": "TCP"}],
    }
