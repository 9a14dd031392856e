"""What a command shows when its watches fail: each outage once, and each missing right once."""

from __future__ import annotations

import asyncio

import pytest

from traincrew.cli.errors import CommandFailed
from traincrew.cli.watching.watcherrors import WatchErrors
from traincrew.engine.errors import ForbiddenError, UnreachableError
from traincrew.engine.resources import EVENTS, JOBS, PODS

FORBIDDEN = ForbiddenError("no")


class Shown:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.recoveries: list[str] = []
        self.errors = WatchErrors(self.problems.append, self.recoveries.append)


@pytest.fixture
def shown() -> Shown:
    return Shown()


def test_an_outage_is_one_line_however_many_watches_it_breaks(shown: Shown) -> None:
    for resource in (PODS, JOBS, PODS):
        shown.errors.report(UnreachableError("connection refused"), resource, "default")
    assert shown.problems == ["the cluster does not answer; trying again: connection refused"]
    for resource in (PODS, JOBS):
        shown.errors.report(None, resource, "default")
    assert shown.recoveries == ["the cluster answers again"]
    shown.errors.report(UnreachableError("connection refused"), PODS, "default")
    assert len(shown.problems) == 2


async def test_the_command_fails_without_a_right_that_it_needs(shown: Shown) -> None:
    shown.errors.report(FORBIDDEN, PODS, "team")
    with pytest.raises(CommandFailed, match="right to watch pods in namespace team is missing"):
        await shown.errors.unless_failed(asyncio.Event().wait())
    assert not shown.problems


async def test_another_missing_right_is_one_line(shown: Shown) -> None:
    for _ in range(2):
        shown.errors.report(FORBIDDEN, EVENTS, "team", required=False)
    (problem,) = shown.problems
    assert problem.startswith("the right to watch events")
    await shown.errors.unless_failed(asyncio.sleep(0))
