"""Runs the scenarios of one cluster, several concurrently, on a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import NAMESPACES

from .clusters import NODES
from .context import ScenarioContext
from .recorder import Recorder
from .scenario import SCENARIOS
from .transcript import Transcript, text, transcribe

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from .clusters import Cluster
    from .scenario import Scenario

AT_ONCE = 5
"""Scenarios that run concurrently; most of the time they wait."""
_DELETION = 120.0
"""Seconds in which a namespace is deleted."""


class ScenarioRunner:
    """The scenarios of one cluster and their results.

    Args:
        cluster: A running cluster.
        scenarios: The scenarios to run. Those that have to run alone come last.
    """

    def __init__(self, cluster: Cluster, scenarios: Iterable[Scenario]) -> None:
        self._cluster = cluster
        self._scenarios = sorted(scenarios, key=lambda each: each.alone)
        self._transcripts: dict[str, Future[Transcript]] = {
            each.name: Future() for each in self._scenarios
        }
        self._thread = threading.Thread(target=self._run, name=f"{cluster.name} scenarios")
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._recorder: Recorder
        self._complete: asyncio.Event

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The results of scenarios that have not run are no longer needed.
        self._stop.set()
        self._thread.join()

    def transcript(self, name: str) -> Transcript:
        """Wait for the end of a scenario and return its transcript.

        Raises:
            AssertionError: The scenario failed.
        """
        return self._transcripts[name].result()

    def repeat(self, name: str) -> Transcript:
        """Run a scenario again, when all others have ended, and return its new transcript.

        Raises:
            AssertionError: The scenario failed.
        """
        again = self._repeat(SCENARIOS[name])
        return asyncio.run_coroutine_threadsafe(again, self._loop).result()

    # -- on the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._everything())
        except BaseException as error:  # noqa: BLE001 - raised where the transcript is awaited
            for transcript in self._transcripts.values():
                if not transcript.done():
                    transcript.set_exception(error)

    async def _everything(self) -> None:
        self._loop, self._complete = asyncio.get_running_loop(), asyncio.Event()
        async with self._cluster.make_client() as client:
            self._cluster.client = client
            async with Recorder(client) as recorder:
                self._recorder = recorder
                places = asyncio.Semaphore(AT_ONCE)

                async def one(scenario: Scenario) -> None:
                    async with places:
                        await self._run_one(recorder, scenario)

                together = [each for each in self._scenarios if not each.alone]
                await asyncio.gather(*map(one, together))
                for scenario in self._scenarios[len(together) :]:
                    await self._run_one(recorder, scenario)
                self._complete.set()
                await asyncio.to_thread(self._stop.wait)

    async def _run_one(self, recorder: Recorder, scenario: Scenario) -> None:
        future = self._transcripts[scenario.name]
        if self._stop.is_set():
            future.cancel()
            return
        try:
            future.set_result(await self._record(recorder, scenario))
        except Exception as error:  # noqa: BLE001 - of this scenario only
            future.set_exception(error)

    async def _repeat(self, scenario: Scenario) -> Transcript:
        await self._complete.wait()
        async with asyncio.timeout(_DELETION):
            while await self._exists(scenario.name):
                await asyncio.sleep(0.5)
        await self._recorder.catch_up(self._recorder.recording(scenario.name))
        return await self._record(self._recorder, scenario)

    async def _exists(self, namespace: str) -> bool:
        try:
            await self._cluster.client.get(NAMESPACES, namespace)
        except NotFoundError:
            return False
        return True

    async def _record(self, recorder: Recorder, scenario: Scenario) -> Transcript:
        client = self._cluster.client
        recording = recorder.record(scenario.name)
        body: Any = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scenario.name}}
        await client.create(NAMESPACES, body)
        context = ScenarioContext(self._cluster, recorder, recording)
        try:
            # Pods are refused until there is the default ServiceAccount, and wait for the CA bundle
            # of the API server.
            await context.until(
                "the namespace has its account and its certificates",
                lambda: (
                    recording.find("ServiceAccount", "default")
                    and recording.find("ConfigMap", "kube-root-ca.crt")
                ),
            )
            await scenario.run(context)
            await recorder.catch_up(recording)
            # On another thread: it takes long, and the other scenarios would get all events of that
            # time at once and miss the states in between.
            seen = recording.observations
            transcript = await asyncio.to_thread(
                transcribe, seen, NODES, context.logs, context.told
            )
            self._keep(scenario, transcript)
            return transcript
        finally:
            await client.delete(NAMESPACES, scenario.name)

    def _keep(self, scenario: Scenario, transcript: Transcript) -> None:
        """Write the transcript for people, to the directory in TRAINCREW_SUITE_TRANSCRIPTS."""
        if directory := os.environ.get("TRAINCREW_SUITE_TRANSCRIPTS"):
            place = Path(directory)
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{scenario.name}.{self._cluster.name}.txt").write_text(text(transcript))
