"""Sends the requests of a seed to a cluster, and collects what must not happen.

The event loop is watched by a small request that is sent all the time: while it waits, nobody else
is served either. What counts is the processor time that the server's thread uses meanwhile, so that
a busy machine does not matter.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, NamedTuple

from traincrew.engine.config import load_config

from .requests import Request, Requests
from .server import Cleaner, Process
from .wire import CLOSED, LATE, Answer, Connection

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

STALL_SECONDS = 0.25
"""Processor time for which one request may hold the event loop."""
IN_FLIGHT = 3
"""Number of requests at a time."""
PROBE_SECONDS = 0.02
REPEATED = 3
"""How often a request is sent again alone before it counts as the cause of a stall."""
BATCH = 500
"""Number of requests after which the cluster is cleaned."""
PLAIN_ENDS = ("CONNECT", "PRI")
"""Methods that a server may answer by closing the connection."""
INTERNAL_ERROR = "InternalError"
"""Reason of the errors that are none of the request. Upstream answers values that it cannot decode,
and patches that it cannot merge, with the code 500 as well, but with no reason; that these are the
same is what `suites.differential` compares."""


class Finding(NamedTuple):
    """A request that must not be answered as it was."""

    request: Request
    what: str

    def __str__(self) -> str:
        """Describe the request, and how to see all of it."""
        data = self.request.encoded("TOKEN")
        shown = data[:1_500].decode("utf-8", "backslashreplace")
        more = f"... ({len(data)} bytes)" if len(data) > 1_500 else ""
        return f"request {self.request.number}: {self.what}\n{shown}{more}\n"


class Campaign:
    """The requests of one seed to one cluster.

    Args:
        kubeconfig: of the cluster.
        process: the one that serves it.
        seed: determines the requests.
    """

    def __init__(self, kubeconfig: Path, process: Process, seed: int) -> None:
        config = load_config(str(kubeconfig))
        self._kubeconfig = kubeconfig
        self._tls = config.tls.context()
        self._port = int(config.server.rpartition(":")[2])
        self._token = ""
        self._config = config
        self.process = process
        self.requests = Requests(seed)
        self.findings: list[Finding] = []
        self.codes: dict[int, int] = {}
        self.longest_stall = 0.0
        self._in_flight: dict[int, Request] = {}
        self._suspects: dict[int, Request] = {}

    async def run(self, numbers: range) -> None:
        """Send the requests with these numbers; clean the cluster in between and afterwards."""
        authorization = await self._config.authorization()
        assert authorization is not None
        self._token = authorization.partition(" ")[2]
        async with Cleaner(self._kubeconfig) as cleaner:
            for start in range(numbers.start, numbers.stop, BATCH):
                await self._batch(range(start, min(start + BATCH, numbers.stop)))
                suspects, self._suspects = self._suspects, {}
                for request in suspects.values():
                    await self._judge(request)
                await cleaner.clean()

    async def _batch(self, numbers: Iterable[int]) -> None:
        queue = iter(numbers)
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(self._probe())
            workers = [group.create_task(self._work(queue)) for _ in range(IN_FLIGHT)]
            await asyncio.wait(workers)
            probing.cancel()

    async def _work(self, numbers: Iterable[int]) -> None:
        connection = self._connection()
        for number in numbers:
            request = self.requests.make(number)
            self._in_flight[number] = request
            answer = await self._send(connection, request)
            del self._in_flight[number]
            self.codes[answer.code] = self.codes.get(answer.code, 0) + 1
            if what := _fault(request, answer):
                self.findings.append(Finding(request, what))
        connection.close()

    def _connection(self) -> Connection:
        return Connection(self._port, self._tls)

    async def _send(self, connection: Connection, request: Request) -> Answer:
        data = request.encoded(self._token)
        return await connection.send(data, head=request.method == "HEAD")

    async def _probe(self, measured: list[float] | None = None) -> None:
        """Measure the stalls of the server's event loop until cancelled."""
        connection = self._connection()
        data = Request(-1, "GET", "/readyz").encoded(self._token)
        try:
            while True:
                requests = dict(self._in_flight)
                start = self.process.seconds()
                await connection.send(data)
                stall = self.process.seconds() - start
                if measured is not None:
                    measured.append(stall)
                else:
                    self.longest_stall = max(self.longest_stall, stall)
                    if stall > STALL_SECONDS:
                        self._suspects |= requests | self._in_flight
                await asyncio.sleep(PROBE_SECONDS)
        finally:
            connection.close()

    async def _judge(self, request: Request) -> None:
        """Send a request that was in flight during a stall again, alone."""
        stalls = []
        for _ in range(REPEATED):
            measured: list[float] = [0.0]
            connection = self._connection()
            async with asyncio.TaskGroup() as group:
                probing = group.create_task(self._probe(measured))
                await self._send(connection, request)
                await asyncio.sleep(PROBE_SECONDS)
                probing.cancel()
            connection.close()
            stalls.append(max(measured))
            if stalls[-1] <= STALL_SECONDS:
                return
        texts = ", ".join(f"{each:.3f} s" for each in stalls)
        self.findings.append(Finding(request, f"it holds the event loop for {texts}"))


def _fault(request: Request, answer: Answer) -> str:
    """Return what is wrong with an answer; empty if nothing is."""
    if answer.code == LATE:
        return "there was no answer"
    if answer.code == CLOSED:
        allowed = request.method in PLAIN_ENDS
        return "" if allowed else "the connection was closed without an answer"
    if answer.code != 500:
        return ""
    try:
        status = json.loads(answer.body)
        reason, message = status.get("reason", ""), status["message"]
    except (ValueError, KeyError, AttributeError):
        reason, message = INTERNAL_ERROR, answer.body.decode(errors="replace")
    return f"500: {message[:300]}" if reason == INTERNAL_ERROR else ""
