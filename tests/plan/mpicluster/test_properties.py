"""Properties of every history of an MPICluster, whatever happens in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from plan.mpicluster.manifests import interactive, one_shot, template
from plan.mpicluster.world import MPIWorld
from plan.shared.histories import JobHistory, indices, long, run_policies


class History(JobHistory):
    """A cluster, its pods, and an operator that may crash at any write."""

    world: MPIWorld
    counters = ("restarts", "failures")

    def __init__(self) -> None:
        super().__init__()
        self.failed = 0
        self.rotations = 0

    @initialize(
        shot=st.booleans(),
        workers=st.sampled_from([0, 1, 3]),
        update=st.booleans(),
        transport=st.sampled_from(["ssh", "exec"]),
        policy=st.fixed_dictionaries(
            {}, optional={**run_policies, "activeDeadlineSeconds": st.just(300)}
        ),
    )
    def create(
        self, shot: bool, workers: int, update: bool, transport: str, policy: dict[str, Any]
    ) -> None:
        make = one_shot if shot else interactive
        manifest = make(
            workers=workers,
            hostfile={"autoUpdate": update},
            transport=transport,
            runPolicy=policy,
        )
        self.world = MPIWorld(manifest)

    @property
    def ssh(self) -> bool:
        """Whether the cluster has keys."""
        return bool(self.world.job["spec"]["transport"] == "ssh")

    @property
    def one_shot(self) -> bool:
        """Whether the cluster ends with its command."""
        return "oneShot" in self.world.job["spec"]["master"]

    @rule()
    def everything_settles(self) -> None:
        self.world.settle()
        self.world.pass_time(11)  # a master that has ended is created again
        self.world.settle()
        if "somebody" in self.world.secrets.values():
            return  # then it is tried again and again
        self.assert_at_rest()
        status, spec = self.world.status, self.world.job["spec"]
        if status["phase"] == "Suspended":
            assert self.world.pods == {}
            assert self.world.granted == []
        elif status["phase"] in {"Succeeded", "Failed"}:
            assert self.world.granted == []
        elif status["phase"] in {"Running", "Created", "Restarting"}:
            assert self.world.workers == sorted(
                str(index) for index in range(self.world.set["spec"]["replicas"])
            )
            if not self.ssh:
                workers = [f"{self.world.name}-worker-{index}" for index in self.world.workers]
                assert self.world.granted == workers
            if self.world.master is not None and spec["hostfile"]["autoUpdate"]:
                assert self.world.hosts == ["master", *self.ready()]

    def ready(self) -> list[str]:
        """The workers that mpiexec can use, as in the hostfile."""
        found = [
            int(name.rpartition("-")[2])
            for name, pod in self.world.pods.items()
            if name.startswith(f"{self.world.name}-worker-")
            and "deletionTimestamp" not in pod["metadata"]
            and {"type": "Ready", "status": "True"} in pod["status"]["conditions"]
        ]
        return [f"worker-{index}" for index in sorted(found)]

    # -- pods ---------------------------------------------------------------------------------

    @rule(index=indices)
    def container_restarts_in_its_pod(self, index: int) -> None:
        pod = self.pick(index, "Running")
        if pod is None or _is_waiting(pod) or "deletionTimestamp" in pod["metadata"]:
            return
        self.container_restarts += 1
        self.failed += pod is self.world.master
        self.world.restart(pod)

    @rule(code=st.sampled_from([1, 137]), again=st.booleans())
    def command_fails(self, code: int, again: bool) -> None:
        pod = self.world.master
        if pod is None or pod["status"]["phase"] != "Running" or _is_waiting(pod):
            return
        if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("activeDeadlineSeconds"):
            return
        self.failed += 1
        self.world.fail_attempt(code)
        if again:
            self.world.next_attempt()
            self.container_restarts += 1

    @rule()
    def kubelet_runs_the_command_again(self) -> None:
        pod = self.world.master
        if pod is not None and pod["status"]["phase"] == "Running" and _is_waiting(pod):
            self.world.next_attempt()
            self.container_restarts += 1

    @rule(index=indices, code=st.sampled_from([0, 1, 137]))
    def pod_ends(self, index: int, code: int) -> None:
        pod = self.pick(index, "Running")
        if pod is None or _is_waiting(pod):
            return
        if pod is self.world.master and code:
            return  # its container is restarted
        restarts = pod["status"]["containerStatuses"][0]["restartCount"]
        self.world.end(pod, code, finishedAt=self.world.stamp())
        pod["status"]["containerStatuses"][0]["restartCount"] = restarts

    @rule()
    def master_exceeds_a_deadline_of_its_own(self) -> None:
        pod = self.world.master
        if pod is None or pod["status"]["phase"] != "Running":
            return
        if _is_waiting(pod) or "deletionTimestamp" in pod["metadata"]:
            return
        restarts = pod["status"]["containerStatuses"][0]["restartCount"]
        self.failed += 1
        self.world.end(pod, 137)
        pod["status"]["containerStatuses"][0]["restartCount"] = restarts
        pod["status"]["reason"] = "DeadlineExceeded"

    @rule(index=indices)
    def pod_is_evicted(self, index: int) -> None:
        if (pod := self.pick(index, "Running")) is not None:
            self.world.evict(pod)

    @rule(index=indices)
    def pod_is_deleted(self, index: int) -> None:
        if (pod := self.pick(index, "Pending", "Running", "Failed", "Succeeded")) is not None:
            self.world.leave(pod)

    @rule(seconds=st.sampled_from([1, 11, 301, 2000]))
    def time_passes(self, seconds: int) -> None:
        self.world.pass_time(seconds)

    # -- users --------------------------------------------------------------------------------

    @rule(suspend=st.booleans())
    def suspend_or_resume(self, suspend: bool) -> None:
        policy = self.world.job["spec"].get("runPolicy", {})
        self.world.edit(runPolicy={**policy, "suspend": suspend})

    @rule(replicas=st.integers(0, 4))
    def scale(self, replicas: int) -> None:
        self.world.scale(replicas)

    @precondition(lambda self: any(key.kind == "StatefulSet" for key in self.world.children))
    @rule(replicas=st.integers(0, 4))
    def scale_the_stateful_set(self, replicas: int) -> None:
        self.world.scale_set(replicas)

    @rule(image=st.sampled_from(["a", "b"]))
    def change_the_image_of_the_workers(self, image: str) -> None:
        workers = self.world.job["spec"]["workers"]
        self.world.edit(workers={**workers, "template": template("mpi-worker", image=image)})

    @rule(index=indices)
    def child_is_deleted(self, index: int) -> None:
        keys = sorted(self.world.children)
        if keys:
            self.world.remove(keys[index % len(keys)])

    @precondition(
        lambda self: self.ssh and not self.world.job["spec"].get("ssh", {}).get("keySecretName")
    )
    @rule(generation=st.integers(1, 4))
    def rotate_the_keys(self, generation: int) -> None:
        self.rotations = max(self.rotations, generation - 1)
        ssh = {"keyGeneration": generation, "keyOverlapSeconds": 300}
        self.world.edit(ssh=ssh)

    @precondition(lambda self: self.ssh)
    @rule(blocked=st.booleans())
    def somebody_takes_the_name_of_the_secret(self, blocked: bool) -> None:
        name = f"{self.world.name}-ssh-key"
        if blocked:
            self.world.secrets.setdefault(name, "somebody")
        elif self.world.secrets.get(name) == "somebody":
            del self.world.secrets[name]

    # -- what always holds --------------------------------------------------------------------

    @invariant()
    def only_what_failed_or_made_no_progress_is_counted(self) -> None:
        stalls = sum("No output" in event.message for event in self.world.events)
        assert self.world.status.get("failures", 0) <= self.failed + stalls

    @invariant()
    def the_end_is_that_of_the_command(self) -> None:
        status = self.world.status
        if status.get("phase") == "Succeeded":
            assert self.one_shot
            assert status["exitCode"] == 0
        if status.get("reason") == "BackoffLimitExceeded":
            assert status["failures"] > 0

    @invariant()
    def a_key_pair_is_made_once(self) -> None:
        made = self.world.key_pairs
        assert made <= 1 + self.rotations or "somebody" in self.world.secrets.values()


def _is_waiting(pod: dict[str, Any]) -> bool:
    return any("waiting" in each["state"] for each in pod["status"]["containerStatuses"])


TestHistory = History.TestCase
TestHistory.settings = long(60)
