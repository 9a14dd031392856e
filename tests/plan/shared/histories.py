"""Events in the history of a job of any kind, and properties that hold in any order of them."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from plan.world import CrashedError, World, writes_children
from traincrew.api.meta import Condition
from traincrew.plan.shared import lifecycle
from variation import examples

EXCLUSIVE = ("Running", "Restarting", "Suspended", "Succeeded", "Failed")

run_policies = {
    "backoffLimit": st.sampled_from([0, 1]),
    "cleanPodPolicy": st.sampled_from(["Running", "None", "All"]),
    "suspend": st.booleans(),
    "progressDeadlineSeconds": st.sampled_from([10, 60]),
}
"""Fields of the run policy that every kind has; each may be left out."""
indices = st.integers(0, 5)
"""Picks one of the pods that are there."""


def long(number: int) -> settings:
    """Settings for this many histories; a run has some of them."""
    return settings(
        max_examples=examples(number),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


class JobHistory(RuleBasedStateMachine):
    """A job, its pods, and an operator that may crash at any write."""

    world: World
    counters: tuple[str, ...] = ("restarts",)
    """Fields of the status that never fall."""

    def __init__(self) -> None:
        super().__init__()
        self.container_restarts = 0
        self.most: dict[str, int] = {}
        self.terminal: dict[str, Any] | None = None
        self.transitions: dict[str, tuple[str, str]] = {}

    # -- the operator -------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        self.world.step()

    @rule(after=st.integers(0, 4))
    def look_and_die(self, after: int) -> None:
        self.world.crash_at = self.world.writes + after
        with contextlib.suppress(CrashedError):
            self.world.step()
        self.world.crash_at = None
        self.world.restart_operator()

    @rule()
    def controllers_look(self) -> None:
        self.world.controllers()

    def assert_at_rest(self) -> None:
        """Assert that a reconcile of a settled world finds nothing to do."""
        plan = self.world.plan()
        assert not writes_children(plan)
        assert plan.status == self.world.status
        assert plan.events == []

    # -- pods ---------------------------------------------------------------------------------

    def pick(self, index: int, *phases: str) -> dict[str, Any] | None:
        """A pod in one of these phases."""
        pods = [
            pod for _, pod in sorted(self.world.pods.items()) if pod["status"]["phase"] in phases
        ]
        return pods[index % len(pods)] if pods else None

    @rule(index=indices)
    def pod_runs(self, index: int) -> None:
        if (pod := self.pick(index, "Pending")) is not None:
            self.world.run(pod["metadata"]["name"])

    @rule()
    def all_pods_run(self) -> None:
        self.world.run()

    @rule(index=indices)
    def container_restarts_in_its_pod(self, index: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            self.world.restart(pod)
            self.container_restarts += 1

    @rule(index=indices, code=st.sampled_from([0, 1, 137]))
    def pod_ends(self, index: int, code: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            restarts = pod["status"]["containerStatuses"][0]["restartCount"]
            self.world.end(pod, code, finishedAt=self.world.stamp())
            pod["status"]["containerStatuses"][0]["restartCount"] = restarts
            self.ended(pod, code)

    def ended(self, pod: dict[str, Any], code: int) -> None:
        """A pod has ended."""

    @rule(index=indices)
    def pod_is_not_ready_any_more(self, index: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    @rule(index=indices)
    def pod_prints(self, index: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            self.world.print(pod)

    @rule()
    def nothing_happens_to_a_running_job(self) -> None:
        for _ in range(5):
            self.world.step()
            self.world.controllers()
            self.world.run()
        self.world.step()
        self.world.pass_time(61)
        self.world.step()

    @rule(index=indices, reachable=st.booleans())
    def node_is_reachable_or_not(self, index: int, reachable: bool) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            self.world.unreachable = set() if reachable else {pod["metadata"]["name"]}

    # -- what always holds --------------------------------------------------------------------

    @invariant()
    def same_input_same_output(self) -> None:
        first, second = self.world.decide(), self.world.decide()
        assert msgspec.json.encode(str(first)) == msgspec.json.encode(str(second))

    @invariant()
    def at_most_one_state_holds(self) -> None:
        holding = [kind for kind in EXCLUSIVE if self.world.holds(kind)]
        assert len(holding) <= 1, holding

    @invariant()
    def phase_says_what_the_conditions_say(self) -> None:
        status = self.world.status
        own = [
            Condition(type=item["type"], status=item["status"], reason=item["reason"])
            for item in status.get("conditions", [])
        ]
        assert status.get("phase", "") == lifecycle.summary(own)[0]

    @invariant()
    def terminal_absorbs(self) -> None:
        status = self.world.status
        final = {
            name: status.get(name) for name in ("phase", "reason", "message", "completionTime")
        }
        if self.terminal is not None:
            assert final == self.terminal
        elif status.get("phase") in {"Succeeded", "Failed"}:
            assert final["completionTime"]
            self.terminal = final

    @invariant()
    def counters_only_grow_and_never_say_too_much(self) -> None:
        now = {name: self.world.status.get(name, 0) for name in self.counters}
        for name, count in now.items():
            assert count >= self.most.get(name, 0), name
        self.most = now
        replaced = sum(count - 1 for count in self.world.made.values())
        assert now["restarts"] <= replaced + self.container_restarts

    @invariant()
    def transition_times_move_with_the_status_only(self) -> None:
        for status in self.world.statuses:
            before, self.transitions = self.transitions, {}
            for item in status["conditions"]:
                if item["type"] not in lifecycle.OWN_CONDITIONS:
                    continue
                now = (item["status"], item["lastTransitionTime"])
                was = before.get(item["type"], ("", ""))
                assert was == now or was[0] != now[0], item
                self.transitions[item["type"]] = now
        self.world.statuses.clear()
