"""A standby watches the Lease, in simulated time."""

import asyncio
from typing import Any

import pytest

from engine.election.candidates import Candidate, now, spec
from traincrew.engine.resources import LEASES
from traincrew.engine.testing import FakeServer, simulate, until

RENEWAL = 2.0
DURATION = 15.0


async def leader_and_standby(server: FakeServer) -> tuple[Candidate, Candidate]:
    leader = Candidate(server, "one")
    await until(lambda: leader.started)
    standby = Candidate(server, "two")
    await asyncio.sleep(60)
    return leader, standby


async def takes_over(leader: Candidate, standby: Candidate, release: bool = False) -> float:
    """Stop the leader, and return after how many seconds the other one leads."""
    await leader.stop(release=release)
    ended = now()
    await until(lambda: standby.started)
    assert standby.elector.is_leader()
    await standby.stop()
    return standby.started_at - ended


def test_the_standby_leads_as_soon_as_the_lease_expires() -> None:
    async def main() -> None:
        for offset in range(10):
            server = FakeServer()
            leader, standby = await leader_and_standby(server)
            await asyncio.sleep(offset * RENEWAL / 10)
            seconds = await takes_over(leader, standby)
            assert DURATION - RENEWAL <= seconds <= DURATION + 0.01

    simulate(main())


def test_a_released_lease_is_taken_within_milliseconds() -> None:
    async def main() -> None:
        server = FakeServer()
        leader, standby = await leader_and_standby(server)
        assert await takes_over(leader, standby, release=True) < 0.01

    simulate(main())


def test_a_standby_sends_no_requests_while_the_lease_is_renewed() -> None:
    async def main() -> None:
        server = FakeServer()
        leader, standby = await leader_and_standby(server)
        before = len(server.requests)
        await asyncio.sleep(240)
        asked = [request for request in server.requests[before:] if request.startswith("GET")]
        assert asked == []
        await standby.stop()
        await leader.stop()
        assert server.open_watches == 0

    simulate(main())


def test_deleting_the_lease_does_not_lead_to_a_second_leader() -> None:
    """Its holder does not know yet, so the Lease counts until it would have expired."""

    async def main() -> None:
        server = FakeServer()
        leader, standby = await leader_and_standby(server)
        for _ in range(5):
            server.remove(LEASES, "lock", "system")
            for _ in range(50):
                await asyncio.sleep(0.1)
                assert leader.elector.is_leader()
                assert not standby.started
        assert spec(server)["holderIdentity"] == "one"

        await leader.stop(release=False)
        server.remove(LEASES, "lock", "system")
        ended = now()
        await until(lambda: standby.started)
        assert DURATION - RENEWAL <= now() - ended <= DURATION + 5
        await standby.stop()

    simulate(main())


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 403, "reason": "Forbidden"},
        {"status": 410, "reason": "Expired"},
        {"status": 500},
        {"error": ConnectionResetError("reset")},
    ],
    ids=["forbidden", "expired", "error", "reset"],
)
def test_without_a_watch_the_standby_polls(
    fault: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        server = FakeServer()
        server.fail("WATCH", "/leases", times=10**6, **fault)
        leader, standby = await leader_and_standby(server)
        assert not standby.started
        assert DURATION - RENEWAL <= await takes_over(leader, standby) <= DURATION + 5

        server = FakeServer()
        server.fail("WATCH", "/leases", times=10**6, **fault)
        leader, standby = await leader_and_standby(server)
        assert await takes_over(leader, standby, release=True) <= 2.5

    simulate(main())
    said = capsys.readouterr()
    expected = 2 if fault.get("status") == 403 else 0
    assert (said.out + said.err).count("lease may not be watched") == expected


def test_a_silently_broken_watch_does_not_take_leadership_away() -> None:
    """No event arrives, so the standby reads the Lease before it acts."""

    async def main() -> None:
        server = FakeServer()
        leader, standby = await leader_and_standby(server)
        for _ in range(20):
            server.drop_watches(partial=b'{"type":"MODIFIED","object":{"met')
            server.compact()
            await asyncio.sleep(7)
            assert leader.elector.is_leader()
            assert not standby.started
        assert await takes_over(leader, standby) <= DURATION + 5

    simulate(main())


@pytest.mark.parametrize("line", [b"{}\n", b"nonsense\n", b'{"type":"ERROR","object":{}}\n', b"\n"])
def test_the_election_continues_whatever_the_watch_sends(line: bytes) -> None:
    async def main() -> None:
        server = FakeServer()
        leader, standby = await leader_and_standby(server)
        server.send(line)
        await asyncio.sleep(30)
        assert leader.elector.is_leader()
        assert not standby.started
        assert await takes_over(leader, standby) <= DURATION + 0.01

    simulate(main())


def test_one_of_many_standbys_takes_over() -> None:
    async def main() -> None:
        server = FakeServer()
        leader, standby = await leader_and_standby(server)
        others = [standby, *(Candidate(server, f"other-{number}") for number in range(5))]
        await asyncio.sleep(10)
        await leader.stop(release=False)
        ended = now()
        await until(lambda: any(other.started for other in others))
        assert now() - ended <= DURATION + 0.1
        await asyncio.sleep(30)
        assert sum(other.elector.is_leader() for other in others) == 1
        assert spec(server)["leaseTransitions"] == 1
        for other in others:
            await other.stop(release=False)

    simulate(main())
