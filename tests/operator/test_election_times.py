"""The operator's election with its default times: a standby acts within six seconds of a crash."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from engine.election.candidates import Candidate, never_two_leaders, now, spec
from traincrew.cli.commands.operator import operator_command
from traincrew.engine.client import Client
from traincrew.engine.controller import Controller, Manager, Request, Result, own_key
from traincrew.engine.election import LeaderElector, LeadershipLost
from traincrew.engine.resources import CONFIG_MAPS, JOBS
from traincrew.engine.testing import FakeServer, simulate, until
from traincrew.operator.options import OperatorOptions

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULTS = OperatorOptions()
TIMES: dict[str, Any] = {
    "duration": DEFAULTS.lease_duration,
    "renew_deadline": DEFAULTS.renew_deadline,
    "retry_period": DEFAULTS.retry_period,
}


def candidate(server: FakeServer, identity: str) -> Candidate:
    return Candidate(server, identity, **TIMES)


@pytest.mark.parametrize("watch", [True, False], ids=["watching", "polling"])
def test_a_killed_leader_is_followed_in_time(watch: bool) -> None:
    async def main() -> None:
        for offset in (0, 3, 6, 9):
            server = FakeServer()
            if not watch:
                server.fail("WATCH", status=403, reason="Forbidden", times=10**6)
            leader = candidate(server, "one")
            await until(lambda leader=leader: leader.started)  # type: ignore[misc]
            standby = candidate(server, "two")
            await asyncio.sleep(30 + offset / 10)
            await leader.stop(release=False)
            ended = now()
            await until(lambda standby=standby: standby.started)  # type: ignore[misc]
            # What is left of six seconds is for the first write.
            assert standby.started_at - ended <= (5.05 if watch else 6.25)
            assert spec(server)["leaseDurationSeconds"] == 5
            await standby.stop()

    simulate(main())


@pytest.mark.parametrize(
    "trouble",
    [
        lambda server: server.fail("PUT", path="/leases/", delay=1.4),
        lambda server: server.fail("PUT", path="/leases/", status=503, times=3),
        lambda server: server.fail("PUT", path="/leases/", error=ConnectionResetError(), times=3),
        lambda server: server.fail("PUT", path="/leases/", delay=3600),
    ],
    ids=["slow", "refused", "reset", "lost"],
)
def test_a_slow_server_does_not_end_the_leadership(trouble: Callable[[FakeServer], None]) -> None:
    async def main() -> None:
        server = FakeServer()
        leader = candidate(server, "one")
        await until(lambda: leader.started)
        standby = candidate(server, "two")
        for _ in range(20):
            trouble(server)
            for _ in range(50):
                await asyncio.sleep(0.1)
                assert leader.elector.is_leader()
                assert not standby.started
        await leader.stop()
        await standby.stop()

    simulate(main())


def test_a_leader_cut_off_gives_up_before_the_other_one_starts() -> None:
    async def main() -> None:
        server = FakeServer()
        leader = candidate(server, "one")
        await until(lambda: leader.started)
        await asyncio.sleep(30)
        server.fail(path="/leases/", delay=3600, times=10**6)
        cut = now()
        with pytest.raises(LeadershipLost):
            await leader.task
        assert 2.9 <= now() - cut <= 4.1

    simulate(main())


class Operator:
    """A manager with the operator's times, that stays a process whatever happens."""

    def __init__(self, server: FakeServer, identity: str) -> None:
        self.elector = LeaderElector(
            server.client(), "system", "lock", identity, clock=server.clock, **TIMES
        )
        client = Client(
            server.client().config,
            transport=server,
            clock=server.clock,
            guard=self.elector.ensure_leader,
        )
        self.manager = Manager(client, elector=self.elector, clock=server.clock)
        self.reconciles = 0

        async def reconcile(_: Request) -> Result:
            self.reconciles += 1
            name = f"{identity}-{self.reconciles}"
            await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "team"}})
            return Result(requeue_after=0.1)

        controller = Controller("jobs", reconcile, clock=server.clock)
        controller.watch(self.manager.informer(JOBS), own_key)
        self.manager.add(controller)
        self.task = asyncio.create_task(self.manager.run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("length", [4.2, 6.0, 15.0])
def test_somebody_leads_again_soon_after_each_pause_of_the_api_server(
    replicas: int, length: float
) -> None:
    """And works again, in the same processes; requests of the pause are served late."""

    async def main() -> None:
        server = FakeServer()
        server.put(JOBS, {"metadata": {"name": "j", "namespace": "team"}})
        operators = [Operator(server, f"operator-{number}") for number in range(replicas)]

        def leaders() -> list[Operator]:
            return [each for each in operators if each.elector.is_leader()]

        await until(leaders)
        for count in range(10):
            await asyncio.sleep(3.0 + 0.37 * count)
            server.pause()
            ends = now() + length
            while now() < ends:
                await asyncio.sleep(0.05)
                assert len(leaders()) <= 1
            server.resume()
            before = [each.reconciles for each in operators]
            resumed = now()
            await until(
                lambda before=before: any(  # type: ignore[misc]
                    each.reconciles > number
                    for each, number in zip(operators, before, strict=True)
                    if each.elector.is_leader()
                ),
                interval=0.001,
            )
            assert now() - resumed <= 5.0
        assert not any(each.task.done() for each in operators)
        lost = sum(each.manager.metrics.terms_lost.value() for each in operators)
        assert lost == 10
        for each in operators:
            await each.stop()

    simulate(main())


def test_never_two_leaders_with_short_times() -> None:
    simulate(never_two_leaders(7, candidate, step=0.1, delays=(0.3, 4)))


def test_fractions_of_a_second_count_in_favor_of_the_leader() -> None:
    """The Lease has whole seconds, and others go by it."""

    async def main() -> None:
        server = FakeServer()
        leader = Candidate(server, "one", duration=5.5, renew_deadline=5.2, retry_period=1)
        await until(lambda: leader.started)
        assert spec(server)["leaseDurationSeconds"] == 6
        await leader.stop()

    simulate(main())


@pytest.mark.parametrize(
    "flags",
    [
        ["--leader-elect-lease-duration=3s"],
        ["--leader-elect-renew-deadline=10s"],
        ["--leader-elect-retry-period=4s"],
        [
            "--leader-elect-lease-duration=0.9s",
            "--leader-elect-renew-deadline=0.5s",
            "--leader-elect-retry-period=0.1s",
        ],
    ],
)
def test_times_without_a_margin_are_refused_with_the_fix(flags: list[str]) -> None:
    result = CliRunner().invoke(operator_command, flags)

    assert result.exit_code == 2
    assert "--leader-elect-lease-duration must be at least 1s" in result.output
