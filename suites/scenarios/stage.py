"""What a scenario can do and wait for, the same on every cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError
from traincrew.engine.resources import PODS
from traincrew.operator.kinds import CHAINER_JOBS

if TYPE_CHECKING:
    from traincrew.engine.client import Client

    from .clusters import Cluster
    from .recorder import Recorder
    from .recording import Document, Recording

DEADLINE = 90.0
"""Seconds that anything may take which normally takes a few: machines are shared."""
QUIET = 2.5
"""Seconds without a change after which nothing more is expected; status writes are 1 s apart."""
TERMINAL = ("Succeeded", "Failed")

_NAME = "chainerjob.kubeflow.org/name"
_ROLE = "chainerjob.kubeflow.org/role"
_SET = "chainerjob.kubeflow.org/workersetname"


class Stage:
    """One scenario's namespace on one cluster."""

    def __init__(self, cluster: Cluster, recorder: Recorder, recording: Recording) -> None:
        self.cluster = cluster
        self.recording = recording
        self.logs: dict[str, str] = {}
        self.told: dict[str, str] = {}
        self._recorder = recorder

    @property
    def client(self) -> Client:
        """The cluster's API."""
        return self.cluster.client

    @property
    def namespace(self) -> str:
        """Where the scenario plays."""
        return self.recording.namespace

    # -- doing --------------------------------------------------------------------------------

    async def create(self, document: Document) -> Document:
        """Create a ChainerJob."""
        return await self.client.create(CHAINER_JOBS, document, self.namespace)

    async def edit(self, name: str, spec: Document) -> None:
        """Change a ChainerJob's spec by a merge patch."""
        await self.client.patch(CHAINER_JOBS, name, self.namespace, patch={"spec": spec})

    async def delete(self, name: str) -> None:
        """Delete a ChainerJob as kubectl does."""
        await self.client.delete(CHAINER_JOBS, name, self.namespace)

    async def execute(self, pod: str, script: str) -> str:
        """Run a shell script in a pod, by kubectl; return what it prints.

        Raises:
            AssertionError: It did not end with exit code 0.
        """
        process = await asyncio.create_subprocess_exec(
            self.cluster.kubectl,
            *("--kubeconfig", str(self.cluster.kubeconfig), "--namespace", self.namespace),
            *("exec", pod, "-c", "chainer", "--", "sh", "-c", script),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        text = output.decode()
        assert process.returncode == 0, f"exec in {pod}: exit code {process.returncode}: {text}"
        return text

    async def refused(self, what: str, document: Document) -> None:
        """Try to create a ChainerJob that the API must refuse, and keep what it says.

        Raises:
            AssertionError: It was taken.
        """
        try:
            await self.create(document)
        except ApiError as error:
            self.told[what] = f"{error.code} {error.reason}: {error.message}"
        else:
            raise AssertionError(f"{what} was not refused: {document}")

    async def end(self, pod: Document, code: int) -> None:
        """Have a pod that runs `manifests.GATE` end with an exit code, in a second.

        By then the command that says so has left the container: with one that is still in there
        when it ends, ``kubectl exec`` may fail.
        """
        script = f"(sleep 1; echo {code} > /tmp/exit) </dev/null >/dev/null 2>&1 &"
        await self.execute(pod["metadata"]["name"], script)

    async def keep_log(self, pod: Document) -> str:
        """Keep what a pod has printed so far for the comparison, and return it."""
        name = pod["metadata"]["name"]
        chunks = self.client.logs(name, self.namespace, container="chainer")
        text = b"".join([chunk async for chunk in chunks]).decode()
        self.logs[name] = text
        return text

    # -- waiting ------------------------------------------------------------------------------

    async def until(self, what: str, check: Any, seconds: float = DEADLINE) -> Any:
        """Wait until a check of the recording's current state gives something true."""
        return await self.recording.until(what, check, seconds)

    def job(self, name: str) -> Document:
        """A ChainerJob as it is now; empty if there is none."""
        return self.recording.find("ChainerJob", name) or {}

    async def phase(self, name: str, phase: str, seconds: float = DEADLINE, **wanted: str) -> None:
        """Wait for a phase; fail at once when another one is final.

        Args:
            name: The job.
            phase: The phase.
            seconds: How long to wait.
            wanted: Texts that fields of the status have to contain, by the field's name.
        """

        def reached() -> bool:
            status = self.job(name).get("status", {})
            now = status.get("phase")
            assert now == phase or now not in TERMINAL, self.recording.describe()
            texts = {key: str(status.get(key, "")) for key in wanted}
            return now == phase and all(text in texts[key] for key, text in wanted.items())

        await self.until(f"{name} is {phase} {wanted or ''}".strip(), reached, seconds)

    def pods(self, role: str, *, of: str | None = None) -> list[Document]:
        """The pods of a role (`master`, `workerset`), oldest first, those going away included.

        Args:
            role: The role.
            of: The job, where there are several.
        """
        wanted = {_ROLE: role} if of is None else {_ROLE: role, _NAME: of}
        return [
            pod
            for pod in self.recording.all("Pod")
            if wanted.items() <= pod["metadata"].get("labels", {}).items()
        ]

    async def running(self, role: str, count: int = 1) -> list[Document]:
        """Wait until so many pods of a role run and are ready; in the order of their names."""

        def found() -> list[Document] | None:
            pods = [pod for pod in self.pods(role) if is_ready(pod)]
            return pods if len(pods) == count else None

        pods: list[Document] = await self.until(f"{count} pods of role {role} run", found)
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    async def master(self, *, after: Document | None = None, of: str | None = None) -> Document:
        """Wait until a master runs, another one than that given; of a job, where there are more."""

        def found() -> Document | None:
            for pod in reversed(self.pods("master", of=of)):
                if is_ready(pod) and (after is None or uid(pod) != uid(after)):
                    return pod
            return None

        pod: Document = await self.until("the master runs", found)
        return pod

    async def restarted(self, pod: Document, restarts: int) -> Document:
        """Wait until a pod's container has been started again so many times and is ready."""
        name = pod["metadata"]["name"]

        def found() -> Document | None:
            now = self.recording.find("Pod", name)
            if now is None or not is_ready(now):
                return None
            (container,) = now["status"]["containerStatuses"]
            return now if container["restartCount"] == restarts else None

        again: Document = await self.until(f"{name} has restarted {restarts} times", found)
        return again

    async def gone(self, kind: str, name: str) -> None:
        """Wait until there is no object of that name."""
        await self.until(f"{kind} {name} is gone", lambda: not self.recording.find(kind, name))

    async def replaced(self, pod: Document) -> Document:
        """Wait until another pod of the same name runs and is ready."""
        name = pod["metadata"]["name"]

        def found() -> Document | None:
            now = self.recording.find("Pod", name)
            return now if now is not None and uid(now) != uid(pod) and is_ready(now) else None

        successor: Document = await self.until(f"{name} is replaced", found)
        return successor

    async def event(self, reason: str, message: str) -> None:
        """Wait until something has been told."""

        def found() -> bool:
            events = self.recording.all("Event")
            return any((e["reason"], e.get("message")) == (reason, message) for e in events)

        await self.until(f"event {reason}: {message}", found)

    async def given_up(self, pod: Document) -> None:
        """Wait until a pod is to go whose node is not heard of any more."""
        name = pod["metadata"]["name"]

        def found() -> bool:
            now = self.recording.find("Pod", name)
            return now is not None and "deletionTimestamp" in now["metadata"]

        await self.until(f"{name} is given up", found)

    async def nothing_of(self, name: str) -> None:
        """Wait until nothing is left of a job but what was said about it."""
        theirs = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}

        def left() -> set[tuple[str, str]]:
            return {key for key in self.recording.current if key[0] != "Event"} - theirs

        await self.until(f"nothing of {name} is left", lambda: not left())
        await self.recording.quiet(QUIET, DEADLINE)

    async def at_rest(self, workers: int = 0) -> None:
        """Wait until only so many workers are left and nothing changes any more."""
        await self.until(
            f"{workers} workers are left", lambda: len(self.pods("workerset")) == workers
        )
        await self.recording.quiet(QUIET, DEADLINE)
        await self._recorder.catch_up(self.recording)

    async def delete_pod(self, pod: Document) -> None:
        """Delete a pod as kubectl does."""
        await self.client.delete(PODS, pod["metadata"]["name"], self.namespace)


def uid(document: Document) -> str:
    """An object's UID."""
    return str(document["metadata"]["uid"])


def is_ready(pod: Document) -> bool:
    """Whether a pod runs, is ready and is not going away."""
    status = pod.get("status", {})
    ready = {"type": "Ready", "status": "True"}.items()
    return (
        status.get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and any(ready <= condition.items() for condition in status.get("conditions", []))
    )
