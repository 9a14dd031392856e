"""Plays the scenarios of one cluster, several at a time, on a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from traincrew.engine.resources import NAMESPACES

from .clusters import NODES
from .recorder import Recorder
from .stage import Stage
from .story import Story, tell, text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from .clusters import Cluster
    from .scenario import Scenario

AT_ONCE = 5
"""Scenarios that play at the same time; most of their time they wait."""


class Theatre:
    """The scenarios of one cluster and what became of them.

    Args:
        cluster: A running cluster.
        scenarios: What to play. Those that have to be alone come last.
    """

    def __init__(self, cluster: Cluster, scenarios: Iterable[Scenario]) -> None:
        self._cluster = cluster
        self._scenarios = sorted(scenarios, key=lambda each: each.alone)
        self._stories: dict[str, Future[Story]] = {each.name: Future() for each in self._scenarios}
        self._thread = threading.Thread(target=self._run, name=f"{cluster.name} scenarios")
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Nobody waits any more for what has not been played yet.
        self._stop.set()
        self._thread.join()

    def story(self, name: str) -> Story:
        """What happened in a scenario; waits for its end.

        Raises:
            AssertionError: It did not go as it should.
        """
        return self._stories[name].result()

    # -- on the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._everything())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for a story
            for story in self._stories.values():
                if not story.done():
                    story.set_exception(error)

    async def _everything(self) -> None:
        async with self._cluster.make_client() as client:
            self._cluster.client = client
            async with Recorder(client) as recorder:
                places = asyncio.Semaphore(AT_ONCE)

                async def one(scenario: Scenario) -> None:
                    async with places:
                        await self._play(recorder, scenario)

                together = [each for each in self._scenarios if not each.alone]
                await asyncio.gather(*map(one, together))
                for scenario in self._scenarios[len(together) :]:
                    await self._play(recorder, scenario)

    async def _play(self, recorder: Recorder, scenario: Scenario) -> None:
        future = self._stories[scenario.name]
        if self._stop.is_set():
            future.cancel()
            return
        try:
            future.set_result(await self._record(recorder, scenario))
        except Exception as error:  # noqa: BLE001 - of this scenario only
            future.set_exception(error)

    async def _record(self, recorder: Recorder, scenario: Scenario) -> Story:
        client = self._cluster.client
        recording = recorder.record(scenario.name)
        body: Any = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scenario.name}}
        await client.create(NAMESPACES, body)
        stage = Stage(self._cluster, recorder, recording)
        try:
            # Pods are refused before there is the account they run as by default, and wait for the
            # certificates they know the API server by.
            await stage.until(
                "the namespace has its account and its certificates",
                lambda: (
                    recording.find("ServiceAccount", "default")
                    and recording.find("ConfigMap", "kube-root-ca.crt")
                ),
            )
            await scenario.play(stage)
            await recorder.catch_up(recording)
            # On another thread: it takes long, and the other scenarios would be shown what happens
            # meanwhile all at once, so that they miss the states in between.
            seen = recording.observations
            story = await asyncio.to_thread(tell, seen, NODES, stage.logs, stage.told)
            self._keep(scenario, story)
            return story
        finally:
            await client.delete(NAMESPACES, scenario.name)

    def _keep(self, scenario: Scenario, story: Story) -> None:
        """Write the story down for people, where TRAINCREW_SUITE_STORIES says."""
        if directory := os.environ.get("TRAINCREW_SUITE_STORIES"):
            place = Path(directory)
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{scenario.name}.{self._cluster.name}.txt").write_text(text(story))
