"""What holds for every history of a ChainerJob, whatever happens in whatever order."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from plan.world import CrashedError, World, distributed, plain
from traincrew.api.meta import Condition
from traincrew.plan import lifecycle
from traincrew.plan.model import ChildKey

EXCLUSIVE = ("Running", "Restarting", "Suspended", "Succeeded", "Failed")


class History(RuleBasedStateMachine):
    """A job, its controllers, its pods, and an operator that may die at any write."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.container_restarts = 0
        self.most_restarts = 0
        self.terminal: dict[str, Any] | None = None
        self.transitions: dict[str, tuple[str, str]] = {}

    @initialize(
        workers=st.sampled_from([0, 1, 2]),
        policy=st.fixed_dictionaries(
            {},
            optional={
                "backoffLimit": st.sampled_from([0, 1]),
                "cleanPodPolicy": st.sampled_from(["Running", "None", "All"]),
                "activeDeadlineSeconds": st.just(30),
                "suspend": st.booleans(),
            },
        ),
    )
    def create(self, workers: int, policy: dict[str, Any]) -> None:
        manifest = distributed() if workers else plain()
        if workers:
            manifest["spec"]["workerSets"]["ws0"]["replicas"] = workers
            del manifest["spec"]["backend"]
        manifest["spec"]["runPolicy"] = policy
        self.world = World(manifest)

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
    def controllers_look(self) -> None:
        self.world.controllers()

    @rule()
    def everything_settles(self) -> None:
        self.world.settle()
        if self.world.foreign:
            return  # then it is tried again and again
        plan = self.world.plan()
        assert not plan.writes_children
        assert plan.status == self.world.status
        assert plan.events == []
        if self.world.status["phase"] == "Suspended":
            assert not [
                pod
                for pod in self.world.pods.values()
                if pod["status"]["phase"] in {"Pending", "Running"}
            ]

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
            self.world.end(pod, code)
            pod["status"]["containerStatuses"][0]["restartCount"] = restarts

    @rule(index=st.integers(0, 5))
    def pod_is_deleted(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed")) is not None:
            del self.world.pods[pod["metadata"]["name"]]

    @rule(index=st.integers(0, 5))
    def pod_is_not_ready_any_more(self, index: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            pod["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    @rule(seconds=st.sampled_from([1, 31, 2000]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- users --------------------------------------------------------------------------------

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        policy = {**self.world.job["spec"].get("runPolicy", {}), "suspend": suspend}
        self.world.edit(runPolicy=policy)

    @precondition(lambda self: "workerSets" in self.world.job["spec"])
    @rule(replicas=st.integers(0, 3))
    def scale(self, replicas: int) -> None:
        sets = copy.deepcopy(self.world.job["spec"]["workerSets"])
        sets["ws0"]["replicas"] = replicas
        self.world.edit(workerSets=sets)

    @precondition(lambda self: "workerSets" in self.world.job["spec"])
    @rule(backend=st.sampled_from(["mpi", "gloo"]))
    def change_backend(self, backend: str) -> None:
        self.world.edit(backend=backend)

    @rule(kind=st.sampled_from(["Role", "ConfigMap", "StatefulSet", "ServiceAccount"]))
    def child_is_deleted(self, kind: str) -> None:
        for key in [key for key in self.world.children if key.kind == kind]:
            self.world.remove(key)

    @rule(blocked=st.booleans())
    def somebody_takes_a_name(self, blocked: bool) -> None:
        key = ChildKey("Role", f"{self.world.job['metadata']['name']}-launcher-role")
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
        restarts = self.world.status.get("restarts", 0)
        assert restarts >= self.most_restarts
        self.most_restarts = restarts
        replaced = sum(count - 1 for count in self.world.made.values())
        assert restarts <= replaced + self.container_restarts

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


TestHistory = History.TestCase
TestHistory.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
