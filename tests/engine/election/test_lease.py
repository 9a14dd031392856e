"""Leader election, in simulated time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine.election.candidates import Candidate, never_two_leaders, now, spec
from traincrew.engine.election import LeaderElector, LeadershipLost
from traincrew.engine.resources import LEASES
from traincrew.engine.testing import FakeServer, SimulatedClock, simulate, until


def test_the_first_candidate_leads_and_keeps_leading() -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        first = spec(server)
        two = Candidate(server, "two")
        for _ in range(300):
            await asyncio.sleep(1)
            assert one.elector.is_leader()
            assert not two.elector.is_leader()
        last = spec(server)
        assert last["holderIdentity"] == "one"
        assert last["renewTime"] > first["renewTime"]
        assert last["acquireTime"] == first["acquireTime"]
        assert last["leaseTransitions"] == 0
        assert last["leaseDurationSeconds"] == 15
        assert two.elector.holder == "one"
        await one.stop()
        await two.stop()

    simulate(main())


def test_a_crashed_leader_is_succeeded_after_the_lease_duration() -> None:
    async def main() -> None:
        server = FakeServer()
        one, two = Candidate(server, "one"), Candidate(server, "two")
        await until(lambda: one.started or two.started)
        leader, other = (one, two) if one.started else (two, one)
        await asyncio.sleep(60)
        await leader.stop(release=False)
        died = now()
        await until(lambda: other.started)

        assert 12 <= now() - died <= 20
        assert spec(server)["leaseTransitions"] == 1
        await other.stop()

    simulate(main())


def test_a_released_lease_is_acquired_at_once() -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        two = Candidate(server, "two")
        await asyncio.sleep(5)
        await one.stop()
        released = now()
        assert not one.elector.is_leader()
        await until(lambda: two.started)

        assert now() - released <= 3
        await two.stop()

    simulate(main())


def test_a_lease_is_released_although_the_response_to_its_last_renewal_was_lost() -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        renewed = spec(server)["renewTime"]
        server.fail("PUT", applied=True, error=ConnectionResetError())
        await until(lambda: spec(server)["renewTime"] > renewed)
        await one.stop()
        assert spec(server)["holderIdentity"] == ""

    simulate(main())


def test_the_lease_of_a_successor_is_not_released() -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        lease = server.stored(LEASES, "lock", "system") or {}
        server.put(LEASES, lease | {"spec": lease["spec"] | {"holderIdentity": "two"}})
        await one.stop()
        assert spec(server)["holderIdentity"] == "two"

    simulate(main())


def test_expiry_is_measured_locally_not_by_the_clock_of_another_machine() -> None:
    """A holder whose clock is an hour behind keeps the Lease; one far ahead gets no longer one."""

    async def main() -> None:
        server = FakeServer()
        skewed = SimulatedClock()
        for skew in (-3600.0, 3600.0):
            skewed.wall_offset = skew
            one = Candidate(server, f"one{skew}", clock=skewed)
            await until(lambda one=one: one.started)  # type: ignore[misc]
            two = Candidate(server, f"two{skew}")
            await asyncio.sleep(120)
            assert not two.started
            await one.stop(release=False)
            died = now()
            await until(lambda two=two: two.started)  # type: ignore[misc]
            assert 12 <= now() - died <= 20
            await two.stop()

    simulate(main())


@pytest.mark.parametrize(
    "cut",
    [
        lambda s: s.fail(path="/leases/", error=ConnectionResetError("reset"), times=10**6),
        lambda s: s.fail(path="/leases/", status=500, times=10**6),
        lambda s: s.fail(path="/leases/", status=429, retry_after=1, times=10**6),
        lambda s: s.fail(path="/leases/", delay=3600, times=10**6),
    ],
    ids=["reset", "500", "429", "silence"],
)
def test_a_partitioned_leader_gives_up_before_another_may_start(
    cut: Callable[[FakeServer], None],
) -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        await asyncio.sleep(30)
        cut(server)
        cut_at = now()
        with pytest.raises(LeadershipLost):
            await one.task

        assert 7 <= now() - cut_at <= 10.1
        assert not one.elector.is_leader()

    simulate(main())


def test_a_few_lost_renewals_do_not_end_leadership() -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        for _ in range(10):
            server.fail(path="/leases/", status=503)
            server.fail(path="/leases/", error=ConnectionResetError("reset"))
            server.fail(path="/leases/", status=409, reason="Conflict")
            await asyncio.sleep(30)
            assert one.elector.is_leader()
        assert not one.task.done()
        await one.stop()

    simulate(main())


def test_a_leader_that_sees_another_holder_stops_at_once() -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        lease = server.stored(LEASES, "lock", "system")
        assert lease is not None
        taken = {**lease["spec"], "holderIdentity": "usurper"}
        server.put(LEASES, {**lease, "spec": taken})
        at = now()
        with pytest.raises(LeadershipLost, match="now usurper's"):
            await one.task
        assert now() - at <= 5

    simulate(main())


@pytest.mark.parametrize(
    ("holder", "said"), [("", "it has been released"), ("other", "now other's")]
)
def test_a_lease_that_was_not_kept_ends_the_term_also_if_it_is_free(holder: str, said: str) -> None:
    """While this process slept, another one may have led, so what it knows may be old."""

    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        lease = server.stored(LEASES, "lock", "system") or {}
        between = {"holderIdentity": holder, "leaseDurationSeconds": 1}
        server.put(LEASES, {**lease, "spec": {**lease["spec"], **between}})
        with pytest.raises(LeadershipLost, match=said):
            await one.task
        assert not one.elector.is_leader()
        one.again()
        await until(lambda: one.started)
        assert one.elector.is_leader()
        await one.stop()

    simulate(main())


def test_a_term_does_not_begin_with_a_lease_that_is_nearly_over() -> None:
    """The answer took so long that nearly nothing is left: it is renewed before work begins."""

    async def main() -> None:
        server = FakeServer()
        server.fail("POST", path="/leases", delay=9.5)
        one = Candidate(server, "one")
        await until(lambda: one.started)
        began = now()
        for _ in range(50):
            await asyncio.sleep(0.1)
            assert one.elector.is_leader()
        assert one.elector._remaining() > 5
        assert now() - began > 4.9
        await one.stop()

    simulate(main())


def test_a_suspended_machine_does_not_act_before_it_has_renewed() -> None:
    """The monotonic clock stood still during the sleep, the wall clock did not."""

    async def main() -> None:
        server = FakeServer()
        clock = SimulatedClock()
        one = Candidate(server, "one", clock=clock)
        await until(lambda: one.started)
        clock.wall_offset += 3600
        assert not one.elector.is_leader()
        await asyncio.sleep(3)
        assert one.elector.is_leader(), "nobody took it meanwhile"
        await one.stop()

    simulate(main())


def test_a_blocked_event_loop_does_not_act_on_an_old_lease() -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        asyncio.get_running_loop().now += 12  # type: ignore[attr-defined]

        assert not one.elector.is_leader()
        with pytest.raises(LeadershipLost):
            await one.task

    simulate(main())


def test_the_same_identity_keeps_the_lease() -> None:
    async def main() -> None:
        server = FakeServer()
        one = Candidate(server, "one")
        await until(lambda: one.started)
        await one.stop(release=False)
        again = Candidate(server, "one")
        await until(lambda: again.started, timeout=1)
        assert spec(server)["leaseTransitions"] == 0
        await again.stop()

    simulate(main())


def test_there_are_never_two_leaders_whatever_the_network_does() -> None:
    simulate(never_two_leaders(42, Candidate, step=0.2, delays=(1, 8)))


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"duration": 5}, "duration > renew_deadline"),
        ({"retry_period": 11}, "renew_deadline > retry_period"),
        ({"duration": 0.9, "renew_deadline": 0.5, "retry_period": 0.1}, "at least 1 second"),
    ],
)
def test_unsafe_times_are_refused(times: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LeaderElector(FakeServer().client(), "system", "lock", "me", **times)
