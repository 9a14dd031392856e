"""A Job counts each of its pods exactly once and never runs too many, whatever happens to them.

A small model of the server carries out the plan, a crash may lose the rest of it at any point, and
hypothesis decides what happens in between.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from traincrew.engine.objects import AnyObject
from traincrew.local.controllers.common import format_time
from traincrew.local.controllers.job.backoff import Backoff
from traincrew.local.controllers.job.model import TRACKING
from traincrew.local.controllers.job.plan import plan_job

LIMIT = 4
ALL = 1000
WRITES = st.integers(0, 6) | st.just(ALL)


class JobMachine(RuleBasedStateMachine):
    """A Job with six completions, a parallelism of two or three, and a back-off limit of four."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_700_000_000.0
        self.spec: dict[str, Any] = {
            "completions": 6,
            "parallelism": 2,
            "backoffLimit": LIMIT,
            "suspend": False,
            "template": {"spec": {"restartPolicy": "Never", "containers": []}},
        }
        self.status: dict[str, Any] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.backoff = Backoff()
        self.made = 0
        self.succeeded: set[str] = set()
        self.failed: set[str] = set()
        self.conditions: list[Any] = []

    # -- the world ---------------------------------------------------------------------------

    def running(self) -> list[str]:
        return [
            uid
            for uid, pod in self.pods.items()
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def finish(self, uid: str, phase: str) -> None:
        self.pods[uid]["status"] = {"phase": phase}
        if not self.pods[uid]["metadata"]["finalizers"]:
            return  # deleted by the controller
        (self.succeeded if phase == "Succeeded" else self.failed).add(uid)

    def remove_if_free(self, uid: str) -> None:
        meta = self.pods[uid]["metadata"]
        if "deletionTimestamp" in meta and not meta["finalizers"]:
            del self.pods[uid]

    @initialize()
    def begin(self) -> None:
        self.reconcile(ALL)

    @precondition(lambda self: self.running())
    @rule(data=st.data(), phase=st.sampled_from(["Succeeded", "Failed"]), writes=WRITES)
    def a_pod_ends(self, data: st.DataObject, phase: str, writes: int) -> None:
        self.finish(data.draw(st.sampled_from(self.running())), phase)
        self.reconcile(writes)

    @precondition(lambda self: self.running() and not self.decided())
    @rule(data=st.data(), writes=WRITES)
    def a_user_deletes_a_pod(self, data: st.DataObject, writes: int) -> None:
        self.delete(data.draw(st.sampled_from(self.running())))
        self.reconcile(writes)

    @rule(seconds=st.sampled_from([1, 20, 700]), writes=WRITES)
    def time_passes(self, seconds: int, writes: int) -> None:
        self.now += seconds
        self.reconcile(writes)

    @rule(writes=WRITES)
    def suspended_or_resumed(self, writes: int) -> None:
        self.spec["suspend"] = not self.spec["suspend"]
        self.reconcile(writes)

    @rule(number=st.sampled_from([1, 3]), writes=WRITES)
    def scaled(self, number: int, writes: int) -> None:
        self.spec["parallelism"] = number
        self.reconcile(writes)

    @rule()
    def the_controller_restarts(self) -> None:
        self.backoff = Backoff()
        self.now += 700
        self.reconcile(ALL)

    # -- the controller ----------------------------------------------------------------------

    def reconcile(self, writes: int) -> None:
        """Carry out the plan, or only its first writes."""
        job = msgspec.convert(
            {
                "metadata": {"name": "j", "namespace": "n", "uid": "J"},
                "spec": self.spec,
                "status": self.status,
            },
            AnyObject,
        )
        pods = [msgspec.convert(pod, AnyObject) for pod in self.pods.values()]
        plan = plan_job(job, pods, self.now, self.backoff)
        self.backoff = plan.backoff
        steps: list[tuple[Any, ...]] = []
        for deletion in plan.delete:
            uid = deletion.pod.metadata.uid
            if deletion.release:
                steps.append((self.release, uid))
            steps.append((self.delete, uid))
        steps += [(self.create, made) for made in plan.create]
        if plan.status is not None:
            steps.append((self.write, plan.status))
        steps += [(self.release, item.metadata.uid) for item in plan.release]
        if plan.final_status is not None:
            steps.append((self.write, plan.final_status))
        for action, *arguments in steps[:writes]:
            action(*arguments)

    def create(self, made: dict[str, Any]) -> None:
        uid = f"p{self.made}"
        self.made += 1
        self.pods[uid] = {
            "metadata": {"name": uid, "uid": uid, "finalizers": made["metadata"]["finalizers"]},
            "status": {"phase": "Running"},
        }

    def delete(self, uid: str) -> None:
        if uid not in self.pods:
            return
        self.pods[uid]["metadata"]["deletionTimestamp"] = format_time(self.now)
        if self.pods[uid]["metadata"]["finalizers"]:
            self.failed.add(uid)
        self.remove_if_free(uid)

    def release(self, uid: str) -> None:
        if uid in self.pods:
            meta = self.pods[uid]["metadata"]
            meta["finalizers"] = [name for name in meta["finalizers"] if name != TRACKING]
            self.remove_if_free(uid)

    def write(self, status: dict[str, Any]) -> None:
        self.status = msgspec.json.decode(msgspec.json.encode(status))

    # -- what always holds -------------------------------------------------------------------

    def kinds(self) -> list[str]:
        return [item["type"] for item in self.status.get("conditions", ())]

    def decided(self) -> bool:
        return bool({"SuccessCriteriaMet", "FailureTarget"} & set(self.kinds()))

    @invariant()
    def no_pod_is_counted_twice(self) -> None:
        uncounted = self.status.get("uncountedTerminatedPods", {})
        assert self.status.get("succeeded", 0) + len(uncounted.get("succeeded", ())) <= len(
            self.succeeded
        )
        assert self.status.get("failed", 0) + len(uncounted.get("failed", ())) <= len(self.failed)

    @invariant()
    def never_too_many(self) -> None:
        assert len(self.succeeded) <= 6
        assert len(self.running()) <= 3

    @invariant()
    def an_end_is_an_end(self) -> None:
        ends = [kind for kind in self.kinds() if kind in {"Complete", "Failed"}]
        assert len(ends) <= 1
        if self.conditions:
            assert ends == self.conditions
        self.conditions = ends

    def teardown(self) -> None:
        """Without further faults, the Job finishes, and every pod has been counted."""
        self.spec |= {"suspend": False, "parallelism": 2}
        for _ in range(60):
            self.now += 700
            self.reconcile(ALL)
            for uid in self.running():
                self.finish(uid, "Succeeded")
            for uid in list(self.pods):
                if "deletionTimestamp" in self.pods[uid]["metadata"]:
                    self.pods[uid]["status"]["phase"] = "Failed"
                    self.remove_if_free(uid)
            self.an_end_is_an_end()
            if self.conditions:
                break
        assert self.conditions == (["Failed"] if len(self.failed) > LIMIT else ["Complete"])
        assert self.status.get("succeeded", 0) == len(self.succeeded)
        assert self.status.get("failed", 0) == len(self.failed)
        self.reconcile(ALL)
        assert not any(pod["metadata"]["finalizers"] for pod in self.pods.values())


TestJob = JobMachine.TestCase
TestJob.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
