"""The simulated cluster with an MPICluster: Secrets, hostfiles, a master that is a pod of ours."""

from __future__ import annotations

from typing import Any

import msgspec

from plan.cluster import is_leaving, owner, ready
from plan.world import JOB_UID, World
from traincrew.plan.mpicluster import attempts
from traincrew.plan.mpicluster.children import ANNOTATION_HOSTFILE, ANNOTATION_REPLICAS
from traincrew.plan.shared import podrecords
from traincrew.plan.shared.model import KEY_GENERATION, ChildKey, Plan, Refusal
from traincrew.plan.shared.views import ObservedPod
from traincrew.plan.shared.writes import digest

SECRET = "Secret"
REVISION = "controller-revision-hash"


class MPIWorld(World):
    """One MPICluster and everything around it."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        super().__init__(manifest)
        self.secrets: dict[str, str] = {}
        """UID of the owner of each Secret there is, by name; the operator does not watch them."""
        self.key_pairs = 0
        """How many key pairs were made."""
        self.generations: dict[str, list[int]] = {}
        """Generations of the pairs in each Secret, newest first."""
        self.hostfiles: list[list[str]] = []
        """Every hostfile there ever was while a master existed, without the name of the Service."""

    # -- what the operator observes and does --------------------------------------------------

    def _obey(self, plan: Plan) -> dict[ChildKey, Refusal]:
        """Execute a plan; Secrets have an owner and nothing else."""
        refusals: dict[ChildKey, Refusal] = {}
        stages = []
        for stage in plan.stages:
            kept = []
            for write in stage:
                if write.create is None or write.create["kind"] != SECRET:
                    kept.append(write)
                    continue
                assert write.key_pair
                assert not {"data", "stringData"} & write.create.keys()
                refusals |= self._create_secret(write.create, retires=write.retires)
            stages.append(kept)
            if refusals:
                break
        refusals |= super()._obey(
            msgspec.structs.replace(plan, stages=stages, delete={} if refusals else plan.delete)
        )
        self._note_hostfile()
        return refusals

    def _create_secret(self, document: dict[str, Any], *, retires: bool) -> dict[ChildKey, Refusal]:
        name = document["metadata"]["name"]
        key = ChildKey(SECRET, name)
        generation = int(document["metadata"]["annotations"][KEY_GENERATION])
        pairs = self.generations.get(name, [])
        if key in self.refuse:
            return {key: self.refuse[key]}
        if name not in self.secrets:
            self._write()
            self.secrets[name] = JOB_UID
            self.generations[name] = [generation]
            self.key_pairs += 1
        elif self.secrets[name] == JOB_UID and generation > pairs[0]:
            assert not retires
            assert len(pairs) == 1, "the pods may still have the pair before that one"
            self._write()
            self.generations[name] = [generation, *pairs]
            self.key_pairs += 1
        elif self.secrets[name] == JOB_UID and retires and len(pairs) > 1:
            assert generation == pairs[0]
            self._write()
            self.generations[name] = pairs[:1]
        elif self.secrets[name] == "earlier":
            return {key: Refusal("exists", leftover=True)}
        elif self.secrets[name] != JOB_UID:
            return {key: Refusal("exists", foreign=True)}
        return {}

    def _create_pod(self, name: str, document: dict[str, Any]) -> None:
        self._assert_complete(document)
        super()._create_pod(name, document)
        policy = document["spec"]["restartPolicy"]
        self.pods[name]["spec"] = {"nodeName": "node-0", "restartPolicy": policy}

    def _assert_complete(self, document: dict[str, Any]) -> None:
        """Assert that a new master finds the Secret and the hostfile that it is annotated with."""
        volumes = {each["name"]: each for each in document["spec"]["volumes"]}
        if self.job["spec"].get("transport") == "exec":
            assert ChildKey("RoleBinding", f"{self.name}-master") in self.children
        else:
            secret = volumes["kube-openmpi-ssh-key"]["secret"]["secretName"]
            assert secret in self.secrets or secret == self.job["spec"]["ssh"]["keySecretName"]
        annotation = document["metadata"]["annotations"][ANNOTATION_HOSTFILE]
        assert annotation == digest(self.hostfile_text)
        self._assert_hosts_are_granted()

    def _assert_hosts_are_granted(self) -> None:
        """Assert that mpiexec may start processes on all hosts of the hostfile, without ssh."""
        if self.job["spec"].get("transport") == "exec":
            hosts = {f"{self.name}-{host}" for host in self.hosts[1:]}
            assert hosts.issubset(self.granted)

    def _change(self, key: ChildKey, uid: str, values: dict[tuple[str, ...], Any]) -> None:
        super()._change(key, uid, values)
        if key.kind == "ConfigMap":
            self._assert_hosts_are_granted()
        written = values.get(("metadata", "annotations", ANNOTATION_HOSTFILE))
        if key.kind == "Pod" and written is not None:
            assert written == digest(self.hostfile_text), "the kubelet reads an older hostfile"

    def assert_may_delete(self, pod: dict[str, Any]) -> None:
        """Assert that what a master shows is stored before it is deleted."""
        if "oneShot" not in self.job["spec"]["master"] or self.finished or self.holds("Suspended"):
            return
        if not self.record(attempts.PLACE).stalled:  # what happens after that is not counted
            failed = attempts.failures(msgspec.convert(pod, ObservedPod))
            assert self.status.get("failures", 0) >= failed

    # -- the controllers and nodes ------------------------------------------------------------

    def controllers(self) -> bool:
        """Nodes let go of pods that are being deleted, and of those whose owner is gone."""
        changed = super().controllers()
        uids = {JOB_UID, *(each["metadata"]["uid"] for each in self.children.values())}
        self.pods = {name: pod for name, pod in self.pods.items() if owner(pod) in uids}
        return changed

    def nodes_let_go(self) -> None:
        """Pods that are being deleted are gone; those past their deadline end."""
        super().nodes_let_go()
        for pod in self.pods.values():
            if pod["spec"].get("activeDeadlineSeconds") and not _has_ended(pod):
                self.end(pod, 143)
                pod["status"] |= {"phase": "Failed", "reason": "DeadlineExceeded"}

    def _stateful_set(self, name: str, document: dict[str, Any]) -> None:
        """A StatefulSet whose pods take time to terminate; older revisions are replaced."""
        replicas, uid = document["spec"]["replicas"], document["metadata"]["uid"]
        revision = digest(document["spec"]["template"])
        for pod_name, pod in list(self.pods.items()):
            if owner(pod) != uid:
                continue
            if int(pod_name.rpartition("-")[2]) >= replicas:
                self.leave(pod)
            elif pod["status"]["phase"] in {"Failed", "Succeeded"}:
                del self.pods[pod_name]
        self._roll(uid, revision)
        for index in range(replicas):
            if f"{name}-{index}" not in self.pods:
                self._pod(f"{name}-{index}", "StatefulSet", name, uid, document)
                labels = self.pods[f"{name}-{index}"]["metadata"]["labels"]
                self.pods[f"{name}-{index}"]["metadata"]["labels"] = {**labels, REVISION: revision}
        mine = [pod for pod in self.pods.values() if owner(pod) == uid]
        document["status"] = {
            "observedGeneration": document["metadata"]["generation"],
            "updateRevision": revision,
            "replicas": len(mine),
            "readyReplicas": sum(ready(pod) for pod in mine),
        }

    def _roll(self, uid: str, revision: str) -> None:
        """Replace one pod of an older revision at a time, if all others are ready."""
        mine = [pod for pod in self.pods.values() if owner(pod) == uid]
        older = [pod for pod in mine if pod["metadata"]["labels"][REVISION] != revision]
        younger = [pod for pod in mine if pod["metadata"]["labels"][REVISION] == revision]
        if older and all(map(ready, younger)) and not any(map(is_leaving, mine)):
            self.leave(max(older, key=lambda pod: str(pod["metadata"]["name"])))

    def fail_attempt(self, code: int = 1) -> None:
        """The command fails; the kubelet waits before it runs it again."""
        assert self.master is not None
        (status,) = self.master["status"]["containerStatuses"]
        ended = {"exitCode": code, "reason": "Error", "finishedAt": self.stamp()}
        status["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
        status["lastState"] = {"terminated": ended}
        self.master["status"]["conditions"] = [{"type": "Ready", "status": "False"}]

    def next_attempt(self) -> None:
        """The kubelet runs the command again."""
        assert self.master is not None
        (status,) = self.master["status"]["containerStatuses"]
        status["restartCount"] += 1
        status["state"] = {"running": {"startedAt": self.stamp()}}
        self.master["status"]["conditions"] = [{"type": "Ready", "status": "True"}]

    def succeed(self) -> None:
        """The command ends with 0."""
        assert self.master is not None
        restarts = self.master["status"]["containerStatuses"][0]["restartCount"]
        self.end(self.master, 0)
        self.master["status"]["containerStatuses"][0]["restartCount"] = restarts

    def evict(self, pod: dict[str, Any]) -> None:
        """A pod is evicted by its node."""
        restarts = sum(each["restartCount"] for each in pod["status"]["containerStatuses"])
        self.end(pod, 137)
        pod["status"]["containerStatuses"][0]["restartCount"] = restarts
        pod["status"] |= {"phase": "Failed", "reason": "Evicted"}
        pod["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True"}]

    def scale_set(self, replicas: int) -> None:
        """Somebody runs `kubectl scale statefulset`."""
        self.set["spec"]["replicas"] = replicas
        self.set["metadata"]["generation"] += 1

    def scale(self, replicas: int) -> None:
        """Somebody runs `kubectl scale mpicluster`."""
        self.edit(workers={**self.job["spec"]["workers"], "replicas": replicas})

    # -- what tests ask -----------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether the cluster has ended."""
        return self.holds("Succeeded") or self.holds("Failed")

    @property
    def master(self) -> dict[str, Any] | None:
        """The master's pod."""
        return self.pods.get(f"{self.name}-master")

    @property
    def master_pod(self) -> dict[str, Any]:
        """The master's pod, which exists."""
        assert self.master is not None
        return self.master

    @property
    def set(self) -> dict[str, Any]:
        """The StatefulSet."""
        return self.children[ChildKey("StatefulSet", f"{self.name}-worker")]

    @property
    def applied(self) -> str:
        """The number of replicas that the StatefulSet is annotated with."""
        text: str = self.set["metadata"]["annotations"][ANNOTATION_REPLICAS]
        return text

    @property
    def hostfile_text(self) -> str:
        """The hostfile as it is."""
        assets = self.children[ChildKey("ConfigMap", f"{self.name}-assets")]
        text: str = assets["data"]["hostfile"]
        return text

    @property
    def hosts(self) -> list[str]:
        """The hosts of the hostfile, without the name of the cluster."""
        lines = self.hostfile_text.splitlines()
        return [line.removeprefix(f"{self.name}-").removesuffix(f".{self.name}") for line in lines]

    def _note_hostfile(self) -> None:
        if ChildKey("ConfigMap", f"{self.name}-assets") in self.children and self.master:
            self.hostfiles.append(self.hosts)

    @property
    def workers(self) -> list[str]:
        """The workers, by number."""
        prefix = f"{self.name}-worker-"
        return sorted(name.removeprefix(prefix) for name in self.pods if name.startswith(prefix))

    def record(self, place: str) -> podrecords.PodRecord:
        """The stored record of a place."""
        return podrecords.read(self.status["podRecords"])[place]

    def start(self) -> None:
        """Run until the master and all workers are ready."""
        self.settle()
        self.run()
        self.settle()
        self.run()
        self.settle()


def _has_ended(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] in {"Succeeded", "Failed"}
