"""An aiohttp connector over sockets that the caller opens."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from aiohttp import BaseConnector, ClientConnectorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import ClientRequest, ClientTimeout
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.tracing import Trace

__all__ = ["DialingConnector"]


class DialingConnector(BaseConnector):
    """A connector that gets connected sockets from a function, whatever the request's address.

    Args:
        dial: Returns a connected socket; called on the event loop, so it must not block.
        options: Options of `aiohttp.BaseConnector`.
    """

    def __init__(self, dial: Callable[[], socket.socket], **options: Any) -> None:
        super().__init__(**options)
        self._dial = dial

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: list[Trace],  # noqa: ARG002 - aiohttp's
        timeout: ClientTimeout,  # noqa: ARG002, ASYNC109 - aiohttp's
    ) -> ResponseHandler:
        try:
            connection = self._dial()
        except OSError as error:
            raise ClientConnectorError(req.connection_key, error) from error
        if connection.family == socket.AF_UNIX:
            _, protocol = await self._loop.create_unix_connection(self._factory, sock=connection)
        else:
            _, protocol = await self._loop.create_connection(self._factory, sock=connection)
        return protocol
