"""`kubectl debug` on a whole embedded cluster."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Kubectl, binaries
from .whole import running_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEADLINE = 90.0
POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: busybox, command: [sleep, "1000000"]}
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(params=binaries(), ids=lambda path: path.rpartition("/")[2])
def kubectl(
    request: pytest.FixtureRequest, cluster: dict[str, Any], tmp_path: Path
) -> Iterator[Kubectl]:
    kubectl = Kubectl(request.param, tmp_path, cluster)
    kubectl("create", "-f", "-", stdin=POD)
    kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=60s")
    yield kubectl
    kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


def until(found: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + DEADLINE
    while not (answer := found()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return answer


def ephemeral(kubectl: Kubectl, state: str) -> dict[str, Any]:
    """Wait until the ephemeral container is in a state; return its status."""

    def reached() -> dict[str, Any] | None:
        pod = json.loads(kubectl("get", "pod", "web", "-o", "json").out)
        statuses = pod["status"].get("ephemeralContainerStatuses") or ()
        return next((each for each in statuses if state in each["state"]), None)

    found: dict[str, Any] = until(reached, f"an ephemeral container {state}")
    return found


class Terminal:
    """A kubectl with a pseudo-terminal."""

    def __init__(self, kubectl: Kubectl, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.shown = ""
        self.process = subprocess.Popen(
            [kubectl.binary, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=kubectl.environment,
            start_new_session=True,
        )
        os.close(slave)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.master, 65536).decode(errors="replace")
                except OSError:
                    break  # kubectl has ended
        assert text in self.shown, self.shown

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def test_a_shell_beside_a_container(kubectl: Kubectl) -> None:
    command = ["debug", "-it", "web", "--image=busybox", "--target=main", "-c", "dbg", "--", "sh"]
    terminal = Terminal(kubectl, *command)
    try:
        # The line appears twice: as echo and as output.
        until(lambda: ephemeral(kubectl, "running"), "it runs")
        terminal.type("echo at $(hostname) $((6 * 7)); tr '\\0' ' ' < /proc/1/cmdline\n")
        terminal.until("at web 42")
        terminal.until("sleep 1000000")
        assert kubectl("exec", "web", "-c", "dbg", "--", "hostname").out == "web\n"
        terminal.type("exit 3\n")
        assert terminal.process.wait(DEADLINE) is not None
    finally:
        terminal.close()
    status = ephemeral(kubectl, "terminated")
    assert (status["name"], status["state"]["terminated"]["exitCode"]) == ("dbg", 3)
    assert "at web 42" in kubectl("logs", "web", "-c", "dbg").out
    head, row = (line.split() for line in kubectl("get", "pod", "web").out.splitlines())
    assert dict(zip(head, row, strict=True)) | {"AGE": ""} == {
        "NAME": "web",
        "READY": "1/1",
        "STATUS": "Running",
        "RESTARTS": "0",
        "AGE": "",
    }


def test_without_a_terminal(kubectl: Kubectl) -> None:
    # A client that closes its input is detached, as upstream, so it stays open.
    typing = subprocess.Popen(
        [kubectl.binary, "debug", "web", "-i", "--image=busybox", "--", "head", "-n", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=kubectl.environment,
    )
    assert typing.stdin is not None
    typing.stdin.write("typed\n")
    typing.stdin.flush()
    assert typing.stdout is not None
    assert typing.stdout.read().endswith("typed\n")
    assert typing.wait(DEADLINE) == 0
    typing.communicate()
    assert ephemeral(kubectl, "terminated")["name"].startswith("debugger-")
    quiet = kubectl("debug", "web", "--image=busybox", "-c", "quiet", "--", "echo", "hello")
    assert "hello" not in quiet.out
    until(lambda: kubectl("logs", "web", "-c", "quiet", code=None).out == "hello\n", "its log")
    description = kubectl("describe", "pod", "web").out
    _, _, shown = description.partition("Ephemeral Containers:")
    assert "  quiet:\n" in shown
    assert "Exit Code:    0" in shown
    managers = kubectl(
        "get",
        "pod",
        "web",
        "--show-managed-fields",
        "-o",
        'jsonpath={.metadata.managedFields[?(@.subresource=="ephemeralcontainers")].manager}',
    ).out
    assert managers.startswith("kubectl")


def test_refusals(kubectl: Kubectl) -> None:
    wrong = kubectl("debug", "web", "--image=busybox", "--target=nothing", code=1)
    assert 'targetContainerName: Not found: "nothing"' in wrong.err
    kubectl("debug", "web", "--image=busybox", "-c", "one", "--", "true")
    path = "/api/v1/namespaces/default/pods/web"
    pod = json.loads(kubectl("get", "--raw", path).out)
    del pod["metadata"]["resourceVersion"]  # the status changes meanwhile
    pod["spec"]["ephemeralContainers"][0]["command"] = ["false"]
    subresource = f"{path}/ephemeralcontainers"
    changed = kubectl(
        "replace", "--raw", subresource, "-f", kubectl.file("pod.json", json.dumps(pod)), code=1
    )
    assert 'existing ephemeral containers "one" may not be changed' in changed.err
    assert "not found" in kubectl("debug", "nothing", "--image=busybox", code=1).err


def test_a_copy_of_a_pod(kubectl: Kubectl) -> None:
    kubectl(
        "debug",
        "web",
        "--copy-to=copy",
        "--image=busybox",
        "-c",
        "tools",
        "--share-processes=false",
        "--",
        "sleep",
        "1000000",
    )
    kubectl("wait", "pod/copy", "--for=condition=Ready", "--timeout=60s")
    assert kubectl("exec", "copy", "-c", "tools", "--", "hostname").out == "copy\n"
    assert kubectl("exec", "copy", "-c", "main", "--", "hostname").out == "copy\n"


def test_a_node(kubectl: Kubectl) -> None:
    (node,) = kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").out.split()
    made = kubectl("debug", f"node/{node}", "--image=busybox", "--", "ls", "-d", "/host/etc")
    name = next(
        word for word in (made.out + made.err).split() if word.startswith("node-debugger-")
    ).rstrip(".")
    kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    assert kubectl("logs", name).out == "/host/etc\n"
    events = until(
        lambda: kubectl("events", "--for", f"pod/{name}", "--types=Warning").out, "unsupported"
    )
    assert "spec.hostPID: containers see their own processes only" in events
