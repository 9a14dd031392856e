"""Someone with MPIClusters at a shell, on whichever cluster: the steps of the guide."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).parents[1] / "examples/openmpi"
NAME_LABEL = "mpicluster.traincrew.dev/name"
HOSTFILE = "/kube-openmpi/generated/hostfile"
UPDATE_SECONDS = 15
"""Default of spec.hostfile.updateSeconds."""
OF_A_CLUSTER = (
    "statefulsets,pods,configmaps,secrets,services,poddisruptionbudgets,networkpolicies,"
    "serviceaccounts,roles,rolebindings"
)

Document = dict[str, Any]
T = TypeVar("T")


class Steps:
    """What is done with MPIClusters; a second base class of users."""

    before_mpiexec: tuple[str, ...] = ()
    """What the command of `mpiexec` begins with."""

    @abstractmethod
    def kubectl(self, *words: str) -> str:
        """Run kubectl; return what it prints."""

    @abstractmethod
    def create(self, document: Document) -> object:
        """Create an object."""

    @abstractmethod
    def get(self, *words: str) -> Document:
        """Return an object, or a list of them."""

    @abstractmethod
    def until(self, what: str, condition: Callable[[], T], seconds: float = ..., /) -> T:
        """Wait until a condition gives something true; return it."""

    def mpi_cluster(self, name: str) -> Document:
        """Return an MPICluster."""
        return self.get("mpicluster", name)

    def pods(self, name: str) -> dict[str, Document]:
        """Return the pods of a cluster by their names."""
        found = self.get("pods", "-l", f"{NAME_LABEL}={name}").get("items", [])
        return {pod["metadata"]["name"]: pod for pod in found}

    def until_condition(self, name: str, kind: str) -> Document:
        """Wait for a condition of a cluster; return it."""

        def found() -> Document | None:
            for condition in self.mpi_cluster(name).get("status", {}).get("conditions", []):
                if condition["type"] == kind and condition["status"] == "True":
                    return dict(condition)
            return None

        condition = self.until(f"MPICluster {name} has condition {kind}", found)
        assert condition is not None
        return condition

    def hosts(self, name: str) -> list[str]:
        """Return the lines of the hostfile, as the master reads it."""
        return self.kubectl("exec", f"{name}-master", "--", "cat", HOSTFILE).splitlines()

    def until_hosts(self, name: str, workers: int, within: float) -> None:
        """Wait until the hostfile has the master and exactly these workers."""
        wanted = [f"{name}-master.{name}"]
        wanted += [f"{name}-worker-{index}.{name}" for index in range(workers)]
        self.until_lines(name, wanted, within)

    def until_lines(self, name: str, wanted: list[str], within: float) -> None:
        """Wait until the hostfile has these lines."""
        self.until(f"the hostfile is {wanted}", lambda: self.hosts(name) == wanted, within)

    def until_workers(self, name: str, ready: int) -> None:
        """Wait until the StatefulSet has so many pods, all ready."""

        def reached() -> bool:
            status = self.get("statefulset", f"{name}-worker")["status"]
            return (status.get("replicas", 0), status.get("readyReplicas", 0)) == (ready, ready)

        self.until(f"{name} has {ready} workers", reached)

    def until_replaced(self, name: str, before: Document) -> None:
        """Wait until another pod has the name of this one, and is ready."""

        def is_back() -> bool:
            pod = self.pods(name).get(before["metadata"]["name"], before)
            return is_ready(pod) and pod["metadata"]["uid"] != before["metadata"]["uid"]

        self.until(f"{before['metadata']['name']} is back", is_back)

    def until_restarted(self, name: str, before: Document) -> None:
        """Wait until the containers of a pod were started again, and the pod is ready."""

        def is_back() -> bool:
            pod = self.pods(name)[before["metadata"]["name"]]
            return is_ready(pod) and restarts(pod) > restarts(before)

        self.until(f"{before['metadata']['name']} was restarted", is_back)

    def mpiexec(self, name: str, ranks: int, *command: str) -> str:
        """Run a command in so many pods; return what it prints."""
        words = ("mpiexec", "--allow-run-as-root", "--hostfile", HOSTFILE, "-n", str(ranks))
        return self.kubectl(
            *("exec", f"{name}-master", "-c", "mpi-master", "--"),
            *(*self.before_mpiexec, *words, "--map-by", "ppr:1:node", *command),
        )

    def runs_everywhere(self, name: str, workers: int) -> None:
        """Assert that mpiexec starts one rank in each pod, and nowhere else."""
        found = self.mpiexec(name, workers + 1, "hostname")
        wanted = [f"{name}-master", *(f"{name}-worker-{index}" for index in range(workers))]
        assert lines(found) == wanted

    def rotate_keys(self, name: str, workers: int, overlap: int) -> None:
        """Replace the ssh keys of a cluster; mpiexec works all the time.

        Args:
            name: The cluster, which has its first pair.
            workers: How many workers it has.
            overlap: Seconds for which the pods accept both pairs.
        """
        secret = f"{name}-ssh-key"
        before = self.get("secret", secret)["data"]
        ssh = f'{{"keyGeneration": 2, "keyOverlapSeconds": {overlap}}}'
        change = f'{{"spec": {{"ssh": {ssh}}}}}'
        self.kubectl("patch", "mpicluster", name, "--type=merge", "-p", change)
        seen = set()

        def is_rotated() -> bool:
            self.runs_everywhere(name, workers)
            status = self.mpi_cluster(name)["status"]
            seen.add((status["sshKeyGeneration"], "sshKeyRotationTime" in status))
            return (2, False) in seen

        self.until(f"the keys of {name} are rotated", is_rotated, overlap + 60)
        assert (2, True) in seen
        after = self.get("secret", secret)["data"]
        assert after["id_ed25519"] != before["id_ed25519"]
        assert after["authorized_keys"] == after["id_ed25519.pub"]
        assert "id_previous" not in after

    def secret(self, name: str, **files: Path) -> str:
        """Create a Secret of files; return its name."""
        words = [f"--from-file={key}={path}" for key, path in files.items()]
        self.kubectl("create", "secret", "generic", name, *words)
        return name

    def says(self, document: Document) -> list[str]:
        """Create a cluster; return what its command has printed when it has succeeded."""
        name = document["metadata"]["name"]
        self.create(document)
        self.until_condition(name, "Succeeded")
        found = lines(self.kubectl("logs", f"{name}-master", "-c", "mpi-master"))
        self.gone(name)
        return found

    def gone(self, name: str) -> None:
        """Delete a cluster; nothing of it is left."""
        self.kubectl("delete", "mpicluster", name)
        self.until_nothing_is_left(name)

    def until_nothing_is_left(self, name: str) -> None:
        """Wait until nothing of a deleted cluster is left."""

        def left() -> str:
            mine = ("-l", f"{NAME_LABEL}={name}")
            return self.kubectl("get", OF_A_CLUSTER, *mine, "-o", "name").strip()

        self.until(f"nothing of {name} is left", lambda: left() in {"", "No resources found"})


def is_ready(pod: Document) -> bool:
    """Return whether a pod is ready."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def restarts(pod: Document) -> int:
    """Return how often the containers of a pod were restarted."""
    return sum(each["restartCount"] for each in pod["status"]["containerStatuses"])


def lines(output: str) -> list[str]:
    """Return the lines of output, sorted.

    Not one of Open MPI: it puts each ssh into a process group of its own from both sides, and says
    so when the other side was first.
    """
    return sorted(line for line in output.splitlines() if "setpgid" not in line)


def example(file: str, name: str) -> Document:
    """Return an example with another name."""
    document: Document = yaml.safe_load((EXAMPLES / file).read_text())
    document["metadata"]["name"] = name
    return document


def without_ssh(document: Document, image: str) -> Document:
    """Return a cluster whose processes are started by `kubectl exec`, with another image."""
    document["spec"]["transport"] = "exec"
    for role in ("master", "workers"):
        document["spec"][role]["template"]["spec"]["containers"][0]["image"] = image
    return document


def one_shot(name: str, command: str, **policy: Any) -> Document:
    """Return the one-shot example with another command."""
    document = example("one-shot.yaml", name)
    document["spec"]["master"]["oneShot"]["command"] = command
    document["spec"]["runPolicy"] = policy
    return document


def with_code(
    name: str, repository: str, *, workers: int = 0, retries: int = 2, **entry: Any
) -> Document:
    """Return a cluster that runs the code of a repository in all pods."""
    run = f"mpiexec --allow-run-as-root --hostfile {HOSTFILE} -n {workers + 1} --map-by ppr:1:node"
    document = one_shot(name, f"{run} sh /code/say.sh hello", backoffLimit=retries)
    document["spec"]["workers"]["replicas"] = workers
    code = {"name": "mine", "repository": repository, "mountPath": "/code"}
    document["spec"]["codeSync"] = [{**code, "subPath": "mine/examples", **entry}]
    return document
