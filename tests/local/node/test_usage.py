"""What containers use of processors and memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local.node.support import node_world, shell
from traincrew.local.apiserver.http.node_backend import ContainerUsage, NodeUsage, PodUsage, Usage
from traincrew.local.node.runtime.usage import Sample, UsageMeter, Used, baseline, usage_between

MAIN, SIDE, OTHER = Path("/a/main/0"), Path("/a/side/0"), Path("/b/main/0")


def sample(at: float, **_: object) -> Sample:
    return Sample(at, {})


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        ([], None),
        ([0.5], None),
        ([61.0], None),
        ([5.0], 5.0),
        ([9.0, 5.0, 0.5], 9.0),
        ([40.0, 20.0, 16.0, 5.0], 16.0),
        ([90.0, 5.0], 5.0),
    ],
)
def test_the_baseline_is_about_a_window_old(ages: list[float], expected: float | None) -> None:
    found = baseline([sample(100.0 - age) for age in ages], 100.0)
    assert (None if found is None else 100.0 - found.at) == expected


def test_processors_are_the_difference_of_two_samples() -> None:
    before = Sample(
        100.0, {MAIN: Used("a", "main", "n", 1, 50.0, 0), SIDE: Used("a", "side", "n", 1, 3.0, 0)}
    )
    after = Sample(
        110.0,
        {
            MAIN: Used("a", "main", "n", 1, 55.0, 1000),
            SIDE: Used("a", "side", "n", 1, 2.0, 10),  # a child died that nobody waited for
            OTHER: Used("b", "main", "m", 106.0, 1.0, 7),  # it has started in between
        },
    )
    assert usage_between(before, after, 5.0) == Usage(
        5.0,
        10.0,
        {
            "a": PodUsage(10.0, {"main": ContainerUsage(0.5, 1000), "side": ContainerUsage(0, 10)}),
            "b": PodUsage(4.0, {"main": ContainerUsage(0.25, 7)}),
        },
        {"n": NodeUsage(10.0, 0.5, 1010), "m": NodeUsage(10.0, 0.25, 7)},
    )


def test_a_pod_with_a_container_that_has_just_started_is_left_out() -> None:
    before = Sample(100.0, {MAIN: Used("a", "main", "n", 1, 50.0, 0)})
    after = Sample(
        110.0,
        {MAIN: Used("a", "main", "n", 1, 55.0, 9), SIDE: Used("a", "side", "n", 109.5, 0.1, 9)},
    )
    assert usage_between(before, after, 5.0).pods == {}


async def test_nothing_is_measured_again_within_a_second() -> None:
    meter = UsageMeter()
    first, second = await asyncio.gather(meter.measure(), meter.measure())
    assert first is not None
    assert first is second


async def test_a_running_pod_is_measured(tmp_path: Path) -> None:
    program = "python3 -c 'kept = bytearray(64 << 20)\nwhile True: pass'"
    containers = [shell("busy", f"exec {program}"), shell("idle", "exec sleep 1000")]
    async with node_world(tmp_path / "node") as world:
        await world.pod({"containers": containers})
        await world.ready()
        uid = ((await world.get()) or {})["metadata"]["uid"]

        async def used() -> PodUsage | None:
            usage = await world.node.backend.usage()
            found = None if usage is None else usage.pods.get(uid)
            return found if found and found.containers["busy"].memory > 64 << 20 else None

        found = await world.until(used, "a measurement")
        assert found.window >= 1.0
        assert found.containers["busy"].cpu > found.containers["idle"].cpu
        assert found.containers["busy"].memory < 200 << 20
        assert 0 < found.containers["idle"].memory < 20 << 20
