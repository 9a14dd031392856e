"""What holds for every history of an ElasticJob, whatever happens in whatever order."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from plan.elastic_world import ElasticWorld, elastic
from plan.world import CrashedError
from traincrew.api.meta import Condition
from traincrew.plan import lifecycle
from traincrew.plan.model import ChildKey

EXCLUSIVE = ("Running", "Restarting", "Suspended", "Succeeded", "Failed")


class History(RuleBasedStateMachine):
    """A job, its pods, and an operator that may die at any write."""

    world: ElasticWorld

    def __init__(self) -> None:
        super().__init__()
        self.container_restarts = 0
        self.failed: set[str] = set()
        self.most: dict[str, int] = {}
        self.terminal: dict[str, Any] | None = None
        self.transitions: dict[str, tuple[str, str]] = {}

    @initialize(
        replicas=st.sampled_from([1, 2, 3]),
        policy=st.sampled_from(["ExitCode", "OnFailure", "Never", "Always"]),
        hosted=st.booleans(),
        fields=st.fixed_dictionaries(
            {},
            optional={
                "backoffLimit": st.sampled_from([0, 1]),
                "cleanPodPolicy": st.sampled_from(["Running", "None", "All"]),
                "activeDeadlineSeconds": st.just(300),
                "ttlSecondsAfterFinished": st.just(300),
                "suspend": st.booleans(),
            },
        ),
    )
    def create(self, replicas: int, policy: str, hosted: bool, fields: dict[str, Any]) -> None:
        self.world = ElasticWorld(elastic(replicas, policy, hosted=hosted, **fields))

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

    @rule()
    def nodes_look(self) -> None:
        self.world.controllers()

    @rule()
    def everything_settles(self) -> None:
        if self.world.deleted:
            return
        self.world.settle_or_delete()
        if self.world.foreign or self.world.deleted:
            return
        plan = self.world.plan()
        assert not plan.writes_children
        assert plan.status == self.world.status
        assert plan.events == []
        status = self.world.status
        wanted = self.world.job["spec"]["replicaSpecs"]["Worker"]["replicas"]
        if status["phase"] == "Suspended":
            assert self.world.pods == {}
        elif status["phase"] in {"Created", "Running", "Restarting"}:
            assert self.world.workers == list(range(wanted))
            assert len(self.world.services) == wanted

    # -- pods ---------------------------------------------------------------------------------

    def pick(self, index: int, *phases: str) -> dict[str, Any] | None:
        pods = [
            pod for _, pod in sorted(self.world.pods.items()) if pod["status"]["phase"] in phases
        ]
        return pods[index % len(pods)] if pods else None

    @rule(index=st.integers(0, 5))
    def pod_runs(self, index: int) -> None:
        if (pod := self.pick(index, "Pending")) is not None:
            self.world.run(pod["metadata"]["name"])

    @rule()
    def all_pods_run(self) -> None:
        self.world.run()

    @rule(index=st.integers(0, 5))
    def container_restarts_in_its_pod(self, index: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            self.world.restart(pod)
            self.container_restarts += 1

    @rule(index=st.integers(0, 5), code=st.sampled_from([0, 1, 137]))
    def pod_ends(self, index: int, code: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            restarts = pod["status"]["containerStatuses"][0]["restartCount"]
            self.world.end(pod, code, finishedAt=self.world.stamp())
            pod["status"]["containerStatuses"][0]["restartCount"] = restarts
            if code:
                self.failed.add(pod["metadata"]["uid"])

    @rule(index=st.integers(0, 5))
    def pod_is_evicted(self, index: int) -> None:
        if (pod := self.pick(index, "Running", "Pending")) is not None:
            pod["status"] = {"phase": "Failed", "reason": "Evicted", "conditions": []}
            pod["status"]["containerStatuses"] = []

    @rule(index=st.integers(0, 5))
    def pod_is_deleted(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed", "Succeeded")) is not None:
            self.world.delete(pod["metadata"]["name"])

    @rule(index=st.integers(0, 5))
    def pod_is_gone(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed")) is not None:
            self.world.vanish(pod["metadata"]["name"])

    @rule(index=st.integers(0, 5))
    def pod_is_not_ready_any_more(self, index: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    @rule(seconds=st.sampled_from([1, 11, 61, 400]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- users --------------------------------------------------------------------------------

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        self.world.edit(suspend=suspend)

    @rule(replicas=st.integers(1, 3))
    def scale(self, replicas: int) -> None:
        self.world.scale(replicas)

    @rule()
    def service_is_deleted(self) -> None:
        for key in list(self.world.children):
            self.world.remove(key)

    @rule(blocked=st.booleans())
    def somebody_takes_a_name(self, blocked: bool) -> None:
        key = ChildKey("Service", f"{self.world.name}-worker-2")
        self.world.foreign = {key} if blocked and key not in self.world.children else set()

    # -- what always holds --------------------------------------------------------------------

    @invariant()
    def same_input_same_output(self) -> None:
        first, second = self.world.plan(), self.world.plan()
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
        status = self.world.status
        now = {name: status.get(name, 0) for name in ("restarts", "failures")}
        for name, count in now.items():
            assert count >= self.most.get(name, 0), name
        self.most = now
        replaced = sum(count - 1 for count in self.world.made.values())
        assert now["restarts"] <= replaced + self.container_restarts
        assert now["failures"] <= len(self.failed)

    @invariant()
    def transition_times_move_with_the_status_only(self) -> None:
        for status in self.world.statuses:
            before, self.transitions = self.transitions, {}
            for item in status["conditions"]:
                now = (item["status"], item["lastTransitionTime"])
                was = before.get(item["type"], ("", ""))
                assert was == now or was[0] != now[0], item
                self.transitions[item["type"]] = now
        self.world.statuses.clear()


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
