"""A pod calls itself by its address and by each of its names, as mpirun calls its own host."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from suites.kubectl.conftest import binaries
from suites.kubectl.whole import running_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE = 240.0
PORT = 18447
# Listens on all addresses, and at another port on the pod's own; asks both by every name.
CALL = f"""
import json, os, socket, threading, time

def serve(address, port):
    server = socket.create_server((address, port))
    def answer():
        while True:
            with server.accept()[0] as connection:
                connection.sendall(connection.getsockname()[0].encode())
    threading.Thread(target=answer, daemon=True).start()

own = os.environ["POD_IP"]
serve("0.0.0.0", {PORT})
serve(own, {PORT + 1})
names = [own, socket.gethostname(), "me.set", "me.set.default.svc",
         "me.set.default.svc.cluster.local", "localhost"]
found = {{}}
for name in names:
    for port in ({PORT}, {PORT + 1}):
        end = time.monotonic() + 60
        while True:
            try:
                with socket.create_connection((name, port), 10) as connection:
                    found[f"{{name}} {{port}}"] = connection.recv(100).decode()
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
print(json.dumps([own, found]))
"""
MANIFEST = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "set"},
            "spec": {
                "clusterIP": "None",
                "selector": {"app": "me"},
                "publishNotReadyAddresses": True,
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "me", "labels": {"app": "me"}},
            "spec": {
                "hostname": "me",
                "subdomain": "set",
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": "busybox:1",
                        "command": ["python3", "-c", CALL],
                        "env": [
                            {
                                "name": "POD_IP",
                                "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
                            }
                        ],
                    }
                ],
            },
        },
    ],
}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    directory = tmp_path / "cluster"
    with running_cluster(directory):
        yield str(directory / "kubeconfig")


def test_a_pod_reaches_itself_by_its_address_and_all_of_its_names(kubeconfig: str) -> None:
    def kubectl(*arguments: str, given: str = "") -> str:
        command = [binaries()[0], f"--kubeconfig={kubeconfig}", *arguments]
        result = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    kubectl("create", "--filename=-", given=json.dumps(MANIFEST))
    end = time.monotonic() + DEADLINE
    phase = ""
    while phase not in {"Succeeded", "Failed"}:
        assert time.monotonic() < end, kubectl("describe", "pod", "me")
        phase = kubectl("get", "pod", "me", "--output=jsonpath={.status.phase}")
    printed = kubectl("logs", "me")
    assert phase == "Succeeded", printed
    own, found = json.loads(printed)
    names = [own, "me", "me.set", "me.set.default.svc", "me.set.default.svc.cluster.local"]
    expected = {f"{name} {port}": own for name in names for port in (PORT, PORT + 1)}
    assert found == expected | {f"localhost {port}": own for port in (PORT, PORT + 1)}
