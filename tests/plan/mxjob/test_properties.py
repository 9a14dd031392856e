"""Properties of every history of an MxJob, whatever happens in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from plan.cluster import is_leaving
from plan.mxjob.manifests import distributed
from plan.mxjob.world import MxWorld
from plan.shared.histories import JobHistory, indices, long, run_policies
from traincrew.plan.shared import lifecycle

PHASES = {
    "Creating",
    "Running",
    "Suspended",
    "Done",
}


class History(JobHistory):
    """A job, its pods, and an operator that may crash at any write."""

    world: MxWorld
    counters = ("restarts", "failures", "attempt")

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[str] = set()

    @initialize(
        servers=st.sampled_from([1, 2]),
        workers=st.sampled_from([1, 2]),
        recover=st.booleans(),
        policy=st.fixed_dictionaries(
            {}, optional={**run_policies, "activeDeadlineSeconds": st.just(300)}
        ),
    )
    def create(self, servers: int, workers: int, recover: bool, policy: dict[str, Any]) -> None:
        manifest = distributed(
            servers=servers, workers=workers, recoverWorkers=recover, runPolicy=policy
        )
        self.world = MxWorld(manifest)

    @rule()
    def everything_settles(self) -> None:
        self.world.settle()
        # Servers had time to end, and the scheduler to notice the loss of a worker.
        self.world.pass_time(13)
        self.world.settle()
        self.assert_at_rest()
        status = self.world.status
        wanted = sum(each["replicas"] for each in self.world.job["spec"]["replicaSpecs"])
        done = sum(map(self.is_complete, self.world.children.values()))
        if status["phase"] == "Suspended":
            assert (self.world.pods, self.world.jobs) == ({}, [])
        elif status.get("recreateAfter", "") > self.world.stamp():
            # All replicas are restarted later, or one worker, without which the others continue.
            left = wanted - 1 if status.get("recoveries") else 0
            assert left - done <= len(self.world.pods) <= left
        elif status["phase"] in {"Creating", "Running"}:
            assert len(self.world.jobs) == wanted
            assert wanted - done <= len(self.world.pods) <= wanted  # one may be deleted afterwards

    @staticmethod
    def is_complete(child: dict[str, Any]) -> bool:
        """Whether a Job has completed."""
        conditions = child.get("status", {}).get("conditions", [])
        return any(each["type"] == "Complete" for each in conditions)

    # -- pods ---------------------------------------------------------------------------------

    @rule(index=indices)
    def container_restarts_in_its_pod(self, index: int) -> None:
        """It never does: the restart policy of the pods is Never."""

    def ended(self, pod: dict[str, Any], code: int) -> None:
        """A pod has ended."""
        if code:
            self.failed.add(pod["metadata"]["uid"])

    @rule(index=indices)
    def pod_is_evicted(self, index: int) -> None:
        if (pod := self.pick(index, "Running", "Pending")) is not None:
            self.world.disrupt(pod)

    @rule(index=indices)
    def pod_is_deleted(self, index: int) -> None:
        pod = self.pick(index, "Pending", "Running", "Failed", "Succeeded")
        if pod is not None and not is_leaving(pod):
            self.world.leave(pod)

    @rule(seconds=st.sampled_from([1, 6, 11, 31, 301]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- users --------------------------------------------------------------------------------

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        policy = self.world.job["spec"].get("runPolicy", {})
        self.world.edit(runPolicy={**policy, "suspend": suspend})

    @rule(index=indices)
    def child_is_deleted(self, index: int) -> None:
        keys = sorted(self.world.children)
        if keys:
            self.world.remove(keys[index % len(keys)])

    # -- what always holds --------------------------------------------------------------------

    @invariant()
    def phase_says_what_the_conditions_say(self) -> None:
        status = self.world.status
        phase = status.get("phase", "")
        assert phase in PHASES | {""}
        assert (phase == "Done") == any(map(self.world.holds, ("Succeeded", "Failed")))
        assert ("state" in status) == (phase == "Done")
        assert (phase == "Running") == self.world.holds(lifecycle.RUNNING)

    @invariant()
    def terminal_absorbs(self) -> None:
        names = ("phase", "state", "reason", "message", "completionTime", "attempt", "failures")
        final = {name: self.world.status.get(name) for name in names}
        if self.terminal is not None:
            assert final == self.terminal
        elif final["phase"] == "Done":
            assert final["completionTime"]
            self.terminal = final

    @invariant()
    def counters_only_grow_and_never_say_too_much(self) -> None:
        now = {name: self.world.status.get(name, 0) for name in self.counters}
        assert all(count >= self.most.get(name, 0) for name, count in now.items())
        assert now["failures"] <= now["restarts"]
        self.most = now

    @invariant()
    def only_what_failed_or_made_no_progress_is_counted(self) -> None:
        stalls = sum("No output" in event.message for event in self.world.events)
        assert self.world.status.get("failures", 0) <= len(self.failed) + stalls

    @invariant()
    def a_replica_has_one_pod(self) -> None:
        for name in self.world.children:
            mine = [
                pod
                for pod in self.world.pods.values()
                if pod["metadata"]["ownerReferences"][0]["uid"]
                == self.world.children[name]["metadata"]["uid"]
            ]
            assert len(mine) <= 1


TestHistory = History.TestCase
TestHistory.settings = long(60)
