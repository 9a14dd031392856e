"""The actions and waits of a scenario, the same on every cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import ApiError
from traincrew.engine.resources import PODS
from traincrew.operator.kinds import INSTALLED_RESOURCES as JOBS

from .recorder import kind_name

if TYPE_CHECKING:
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

    from .clusters import Cluster
    from .recorder import Recorder
    from .recording import Document, Recording

DEADLINE = 90.0
"""Timeout in seconds for what normally takes a few, because machines are shared."""
QUIET = 2.5
"""Seconds without a change after which nothing more is expected; status writes are 1 s apart."""
TERMINAL = ("Succeeded", "Failed", "Done")

_NAME = "chainerjob.kubeflow.org/name"
_ROLE = "chainerjob.kubeflow.org/role"
_SET = "chainerjob.kubeflow.org/workersetname"


class ScenarioContext:
    """One scenario's namespace on one cluster."""

    def __init__(self, cluster: Cluster, recorder: Recorder, recording: Recording) -> None:
        self.cluster = cluster
        self.recording = recording
        self.logs: dict[str, str] = {}
        self.told: dict[str, str] = {}
        self._recorder = recorder
        self._kinds: dict[str, Resource] = {}

    @property
    def client(self) -> Client:
        """The client of the cluster."""
        return self.cluster.client

    @property
    def namespace(self) -> str:
        """The cluster on which the scenario runs."""
        return self.recording.namespace

    # -- actions --------------------------------------------------------------------------------

    async def create(self, document: Document) -> Document:
        """Create a training job; its name stands for it from now on."""
        wanted = document["apiVersion"], document["kind"]
        (kind,) = [kind for kind in JOBS if (kind.api_version, kind.kind) == wanted]
        self._kinds[document["metadata"]["name"]] = kind
        return await self.client.create(kind, document, self.namespace)

    async def edit(self, name: str, spec: Document) -> None:
        """Change a job's spec by a merge patch."""
        await self.client.patch(self._kinds[name], name, self.namespace, patch={"spec": spec})

    async def delete(self, name: str) -> None:
        """Delete a job as kubectl does."""
        await self.client.delete(self._kinds[name], name, self.namespace)

    async def execute(self, pod: Document, script: str) -> str:
        """Run a shell script in a pod, by kubectl; return what it prints.

        Raises:
            AssertionError: It did not end with exit code 0.
        """
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]
        process = await asyncio.create_subprocess_exec(
            self.cluster.kubectl,
            *("--kubeconfig", str(self.cluster.kubeconfig), "--namespace", self.namespace),
            *("exec", name, "-c", container, "--", "sh", "-c", script),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        text = output.decode()
        assert process.returncode == 0, f"exec in {name}: exit code {process.returncode}: {text}"
        return text

    async def refused(self, what: str, document: Document) -> None:
        """Try to create a job that the API must refuse, and record the message.

        Raises:
            AssertionError: It was accepted.
        """
        try:
            await self.create(document)
        except ApiError as error:
            self.told[what] = f"{error.code} {error.reason}: {error.message}"
        else:
            raise AssertionError(f"{what} was not refused: {document}")

    async def edit_refused(self, what: str, name: str, spec: Document) -> None:
        """Try to change a job's spec as the API must not allow, and record the message.

        Raises:
            AssertionError: It was changed.
        """
        try:
            await self.edit(name, spec)
        except ApiError as error:
            self.told[what] = f"{error.code} {error.reason}: {error.message}"
        else:
            raise AssertionError(f"{what} was not refused: {spec}")

    async def end(self, pod: Document, code: int) -> None:
        """Let a pod that runs `manifests.GATE` end with an exit code, in a second.

        By then the command that triggers it has left the container: ``kubectl exec`` may fail if
        the container ends during the command.
        """
        script = f"(sleep 1; echo {code} > /tmp/exit) </dev/null >/dev/null 2>&1 &"
        await self.execute(pod, script)

    async def keep_log(self, pod: Document) -> str:
        """Record a pod's log so far for the comparison, and return it."""
        name = pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]["name"]
        chunks = self.client.logs(name, self.namespace, container=container)
        text = b"".join([chunk async for chunk in chunks]).decode()
        self.logs[name] = text
        return text

    # -- waiting ------------------------------------------------------------------------------

    async def until(self, what: str, check: Any, seconds: float = DEADLINE) -> Any:
        """Wait until a check of the recording's current state returns something true."""
        return await self.recording.until(what, check, seconds)

    def job(self, name: str) -> Document:
        """Return the current state of a job; empty if there is none."""
        return self.recording.find(kind_name(self._kinds[name]), name) or {}

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
        """Return the pods of a role (`master`, `workerset`), oldest first, also terminating ones.

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
        """Wait until this many pods of a role run and are ready; return them by name."""

        def found() -> list[Document] | None:
            pods = [pod for pod in self.pods(role) if is_ready(pod)]
            return pods if len(pods) == count else None

        pods: list[Document] = await self.until(f"{count} pods of role {role} run", found)
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    async def master(self, *, after: Document | None = None, of: str | None = None) -> Document:
        """Wait until a master runs, other than the given one; of a job, if there are several."""

        def found() -> Document | None:
            for pod in reversed(self.pods("master", of=of)):
                if is_ready(pod) and (after is None or uid(pod) != uid(after)):
                    return pod
            return None

        pod: Document = await self.until("the master runs", found)
        return pod

    async def restarted(self, pod: Document, restarts: int) -> Document:
        """Wait until a pod's container has restarted this many times and is ready."""
        name = pod["metadata"]["name"]

        def found() -> Document | None:
            now = self.recording.find("Pod", name)
            if now is None or not is_ready(now):
                return None
            (container,) = now["status"]["containerStatuses"]
            return now if container["restartCount"] == restarts else None

        again: Document = await self.until(f"{name} has restarted {restarts} times", found)
        return again

    def has_failed(self, pod: str) -> bool:
        """Return whether a pod has failed."""
        found = self.recording.find("Pod", pod)
        return found is not None and found["status"].get("phase") == "Failed"

    async def gone(self, kind: str, name: str) -> None:
        """Wait until there is no object with this name."""
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
        """Wait for an event."""

        def found() -> bool:
            events = self.recording.all("Event")
            return any((e["reason"], e.get("message")) == (reason, message) for e in events)

        await self.until(f"event {reason}: {message}", found)

    async def reported(self, name: str, *beginnings: str) -> None:
        """Wait until events about a job have been written, one with each of these first words.

        An operator that is killed loses what it has not written: its Normal events wait until
        nothing is urgent.
        """

        def found() -> bool:
            messages = [
                event.get("message", "")
                for event in self.recording.all("Event")
                if event["involvedObject"]["name"] == name
            ]
            return all(any(text.startswith(each) for text in messages) for each in beginnings)

        await self.until(f"events about {name}: {'; '.join(beginnings)}", found)

    async def given_up(self, pod: Document) -> None:
        """Wait until a pod on an unreachable node is being deleted."""
        name = pod["metadata"]["name"]

        def found() -> bool:
            now = self.recording.find("Pod", name)
            return now is not None and "deletionTimestamp" in now["metadata"]

        await self.until(f"{name} is given up", found)

    async def nothing_of(self, name: str) -> None:
        """Wait until nothing is left of a job but its events."""
        theirs = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}

        def left() -> set[tuple[str, str]]:
            return {key for key in self.recording.current if key[0] != "Event"} - theirs

        await self.until(f"nothing of {name} is left", lambda: not left())
        await self.recording.quiet(QUIET, DEADLINE)

    async def at_rest(self, workers: int = 0) -> None:
        """Wait until only this many workers are left and nothing changes any more."""
        await self.until(
            f"{workers} workers are left", lambda: len(self.pods("workerset")) == workers
        )
        await self.recording.quiet(QUIET, DEADLINE)
        await self._recorder.catch_up(self.recording)

    async def delete_pod(self, pod: Document) -> None:
        """Delete a pod as kubectl does."""
        await self.client.delete(PODS, pod["metadata"]["name"], self.namespace)

    async def evict(self, pod: Document) -> None:
        """Evict a pod as ``kubectl drain`` does."""
        metadata = {"name": pod["metadata"]["name"], "namespace": self.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{metadata['name']}/eviction"
        await self.client.request("POST", path, body=body)


def uid(document: Document) -> str:
    """Return an object's UID."""
    return str(document["metadata"]["uid"])


def is_ready(pod: Document) -> bool:
    """Return whether a pod runs, is ready and is not terminating."""
    status = pod.get("status", {})
    ready = {"type": "Ready", "status": "True"}.items()
    return (
        status.get("phase") == "Running"
        and "deletionTimestamp" not in pod["metadata"]
        and any(ready <= condition.items() for condition in status.get("conditions", []))
    )
