"""Records what an operator in this process receives and sends, with the time of each."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, NamedTuple

from traincrew.engine.client import AiohttpTransport
from traincrew.operator.app import USER_AGENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from traincrew.engine.client import HttpRequest, HttpResponse, HttpStream


class Answered(NamedTuple):
    """A request of the operator; `at` is when it was answered, by `time.monotonic`."""

    at: float
    method: str
    path: str


class Received(NamedTuple):
    """A chunk of one of the operator's watches."""

    at: float
    path: str
    chunk: bytes


class OperatorObserver:
    """Records the requests and watches of the operator."""

    def __init__(self) -> None:
        self.answered: list[Answered] = []
        self.received: list[Received] = []

    def clear(self) -> None:
        """Forget everything so far."""
        self.answered.clear()
        self.received.clear()

    def first_received(self, wanted: Callable[[Received], object]) -> float:
        """Return when the first chunk that is wanted arrived."""
        return next(one.at for one in self.received if wanted(one))

    def last_answered(self, method: str, *resources: str) -> float:
        """Return when the last such request on a resource was answered."""
        return max(
            one.at
            for one in self.answered
            if one.method == method and not {*one.path.split("/")}.isdisjoint(resources)
        )

    def observe(self) -> None:
        """Observe the operator's transport from now on."""
        send, watch = AiohttpTransport.request, AiohttpTransport.stream
        observer = self

        async def request(self: AiohttpTransport, request: HttpRequest) -> HttpResponse:
            response = await send(self, request)
            if _is_operators(request):
                path = request.url.partition("?")[0]
                observer.answered.append(Answered(time.monotonic(), request.method, path))
            return response

        @contextlib.asynccontextmanager
        async def stream(self: AiohttpTransport, request: HttpRequest) -> AsyncIterator[HttpStream]:
            async with watch(self, request) as answer:
                yield (
                    _ObservedStream(answer, request, observer) if _is_operators(request) else answer
                )

        AiohttpTransport.request = request  # type: ignore[method-assign]
        AiohttpTransport.stream = stream  # type: ignore[method-assign]


def _is_operators(request: HttpRequest) -> bool:
    return request.headers.get("User-Agent", "").startswith(USER_AGENT)


class _ObservedStream:
    """A stream whose chunks are recorded."""

    def __init__(
        self, stream: HttpStream, request: HttpRequest, observer: OperatorObserver
    ) -> None:
        self._stream, self._observer = stream, observer
        self._path = request.url.partition("?")[0]
        self.status, self.headers = stream.status, stream.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream.chunks():
            self._observer.received.append(Received(time.monotonic(), self._path, chunk))
            yield chunk

    async def read(self) -> bytes:
        return await self._stream.read()
