"""The commands of an administrator who installs the operator, and of a user of a job."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hack.cluster.processes import NotReady

from .faults.jobs import END_FILE, chainer_job, template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hack.cluster import RealCluster

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
POLICY = ROOT / "config" / "policy"
CHART = ROOT / "charts" / "traincrew"
NAME = "chainer-operator"
ACCOUNT = f"system:serviceaccount:{NAME}:{NAME}"
DEFINITION = "chainerjobs.kubeflow.org"
NEW_KIND = "cannot find RESTMapping"
"""Error of admission about a kind it has not discovered yet; discovery runs every 30 s."""
SECONDS = 180.0
"""Timeout for what normally takes a few seconds, because machines are shared."""

Document = dict[str, Any]
T = TypeVar("T")


class User:
    """Runs kubectl commands in one namespace, and waits for their output.

    Args:
        cluster: The cluster.
        namespace: Its jobs' namespace.

    Attributes:
        began: Size of the audit log when this user was created.
    """

    def __init__(self, cluster: RealCluster, namespace: str = "default") -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.began = cluster.audit_log.stat().st_size

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command in the namespace; raise `NotReady` with kubectl's error."""
        return self.cluster.kubectl(f"--namespace={self.namespace}", *arguments, stdin=stdin)

    def create(self, document: Document) -> None:
        """Create an object."""
        self.kubectl("create", "-f", "-", stdin=json.dumps(document))

    def get(self, *arguments: str) -> Document:
        """Return an object or a list of objects; empty if there is none."""
        text = self.kubectl("get", *arguments, "--ignore-not-found", "-o", "json")
        found: Document = json.loads(text) if text else {}
        return found

    def items(self, *arguments: str) -> list[Document]:
        """Return the objects of a kind."""
        found: list[Document] = self.get(*arguments).get("items", [])
        return found

    def edit(self, job: str, spec: Document) -> None:
        """Change a job's spec."""
        patch = json.dumps({"spec": spec})
        self.kubectl("patch", "chainerjob", job, "--type=merge", "--patch", patch)

    def until(
        self,
        what: str,
        condition: Callable[[], T],
        seconds: float = SECONDS,
        *,
        every: float = 0.2,
    ) -> T:
        """Wait until a condition returns something true, polling it at an interval; return it."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"{what}: not in {seconds:g} s"
            time.sleep(every)
        return found

    def until_phase(self, job: str, phase: str, **texts: str) -> Document:
        """Wait until a job is in a phase and its status contains these texts."""
        seen: Document = {}

        def reached() -> bool:
            seen.clear()
            seen.update(self.get("chainerjob", job).get("status", {}))
            return seen.get("phase") == phase and all(
                text in str(seen.get(key, "")) for key, text in texts.items()
            )

        try:
            self.until(f"{job} {phase}", reached)
        except AssertionError as error:
            wanted = ("phase", "reason", "message", "workersReady")
            raise AssertionError(
                f"{error}: {texts}; it is { {key: seen.get(key) for key in wanted} }"
            ) from None
        return seen

    def end_master(self, job: str) -> None:
        """Let a master that runs `UNTIL_TOLD` succeed."""
        (pod,) = self.items("pods", "-l", f"job-name={job}-master")
        self.end(pod["metadata"]["name"])

    def end(self, pod: str) -> None:
        """Let a pod that runs `UNTIL_TOLD` succeed, in two seconds.

        By then the command that triggers it has left the container: ``kubectl exec`` may fail if
        the container ends during the command.
        """
        script = f"(sleep 2; touch {END_FILE}) </dev/null >/dev/null 2>&1 &"
        self.kubectl("exec", pod, "--", "sh", "-c", script)

    def sees_a_job_through(self, job: str = "one") -> None:
        """Create a small job and wait for its success."""
        self.create(chainer_job(job, "echo hello"))
        self.until_phase(job, "Succeeded")
        assert "hello" in self.kubectl("logs", "-l", f"job-name={job}-master")

    def requests(self, account: str) -> list[Document]:
        """Return the audit log's requests of a ServiceAccount since this user was created."""
        with self.cluster.audit_log.open("rb") as file:
            file.seek(self.began)
            found = [json.loads(line) for line in file if account.encode() in line]
        return [
            entry
            for entry in found
            if account
            in {entry["user"]["username"], entry.get("impersonatedUser", {}).get("username")}
            and "objectRef" in entry
        ]

    # -- the operator -------------------------------------------------------------------------

    def rolled_out(self, name: str = NAME, replicas: int = 2) -> None:
        """Wait until all replicas of the operator are ready, and old ones are gone."""
        self.cluster.kubectl(
            f"--namespace={NAME}",
            "rollout",
            "status",
            f"deployment/{name}",
            f"--timeout={SECONDS}s",
        )
        self.until("replicas", lambda: len(self.operators(name)) == replicas)

    def operators(self, name: str = NAME) -> list[Document]:
        """Return the operator's pods."""
        text = self.cluster.kubectl(
            f"--namespace={NAME}", "get", "pods", "-l", f"app={name}", "-ojson"
        )
        found: list[Document] = json.loads(text)["items"]
        return found


def elastic_job(name: str, script: str, workers: int) -> Document:
    """Return an ElasticJob whose workers run a shell script and ignore the launcher's arguments."""
    worker = {"replicas": workers, "restartPolicy": "ExitCode", "template": template(script)}
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"maxReplicas": 3, "replicaSpecs": {"Worker": worker}},
    }


def volume_of(claim: Document, namespace: str, directory: Path) -> Document:
    """Return the volume of a claim: a directory of this machine, which all nodes see.

    Args:
        claim: The PersistentVolumeClaim.
        namespace: Its namespace.
        directory: The directory.
    """
    name = claim["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "hostPath": {"path": str(directory)},
            "claimRef": {"namespace": namespace, "name": name},
        },
    }


@contextlib.contextmanager
def namespace(cluster: RealCluster, name: str) -> Iterator[User]:
    """Yield a namespace for jobs, removed with everything in it at the end."""
    cluster.kubectl("create", "namespace", name)
    try:
        yield User(cluster, name)
    finally:
        cluster.kubectl("delete", "namespace", name, f"--timeout={SECONDS}s")


def uninstall(cluster: RealCluster) -> None:
    """Remove an installation, however it was made, and its jobs."""
    cluster.kubectl("delete", "crd", DEFINITION, "--ignore-not-found", f"--timeout={SECONDS}s")
    cluster.kubectl("delete", "-f", str(DEPLOY), "--ignore-not-found", f"--timeout={SECONDS}s")


def run(program: Path, cluster: RealCluster, *arguments: str, code: int = 0) -> str:
    """Run helm or another kubectl; return all its output.

    Raises:
        AssertionError: It ended with another exit code.
    """
    result = subprocess.run(
        [program, f"--kubeconfig={cluster.kubeconfig}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    text = result.stdout + result.stderr
    assert result.returncode == code, f"{program.name} {' '.join(arguments)}: {text}"
    return text


def denied(cluster: RealCluster, *arguments: str) -> bool:
    """Return whether ``kubectl auth can-i`` answers no."""
    try:
        return cluster.kubectl("auth", "can-i", *arguments).strip() == "no"
    except NotReady:
        return True  # it exits with 1, too


def refusal(entry: Document) -> str:
    """Return why a request of the audit log was denied; empty if not, or not some seconds later."""
    status = entry.get("responseStatus", {})
    text = str(status.get("message", ""))
    return text if status.get("code") == 403 and NEW_KIND not in text else ""


def refused(user: User, document: Document) -> str:
    """Create an object with the operator's permissions; return why not, empty if it was."""
    text = json.dumps(document)
    try:
        user.kubectl("create", f"--as={ACCOUNT}", "-f", "-", stdin=text)
    except NotReady as error:
        return str(error)
    user.kubectl("delete", "--ignore-not-found", document["kind"], document["metadata"]["name"])
    return ""


@contextlib.contextmanager
def install_chart(cluster: RealCluster, *kinds: str) -> Iterator[None]:
    """Install our operator for kinds of other projects, and uninstall it at the end."""
    helm = cluster.binary("helm")
    release = ("crew", f"--namespace={NAME}", "--wait", f"--timeout={SECONDS:g}s")
    served = [f"--set=kinds.{kind}=true" for kind in kinds]
    run(helm, cluster, "install", *release, str(CHART), "--create-namespace", *served)
    try:
        yield
    finally:
        run(helm, cluster, "uninstall", *release)
