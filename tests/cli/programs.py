"""The `traincrew` program in processes of its own, on a machine of its own."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import PODS

PROGRAM = str(Path(sys.executable).with_name("traincrew"))
IMAGE = "busybox:1"
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""The environment of programs: a user's output is buffered, and what is left is written at exit."""
SECONDS = str(100_000 + os.getpid())
"""What the pods of this process sleep, to find them among all processes."""

JOB = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: script}}
data:
  train.sh: |
{script}
---
apiVersion: kubeflow.org/v1alpha1
kind: ChainerJob
metadata: {{name: small}}
spec:
  master:
    backoffLimit: 0
    template:
      spec:
        containers:
        - name: chainer
          image: {image}
          command: [sh, /script/train.sh, "{marker}"]
          volumeMounts: [{{name: script, mountPath: /script}}]
        volumes: [{{name: script, configMap: {{name: script}}}}]
"""


def manifest(directory: Path, script: str, image: str = IMAGE) -> Path:
    indented = "".join(f"    {line}\n" for line in script.splitlines())
    path = directory / "job.yaml"
    path.write_text(JOB.format(script=indented.rstrip("\n"), image=image, marker=directory))
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {
        **BUFFERED,
        "TMPDIR": str(scratch),
        "TRAINCREW_CACHE": str(tmp_path / "cache"),
        "TRAINCREW_HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


def run(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "run", *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=180, check=False
    )


def nothing_is_left(environment: dict[str, str]) -> bool:
    """No file in the temporary directory, no process whose environment or command names it."""
    scratch = environment["TMPDIR"]
    if list(Path(scratch).iterdir()):
        return False
    for entry in Path("/proc").iterdir():
        try:
            text = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if scratch.encode() in text and int(entry.name) != os.getpid():
            return False
    return True


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def started(tmp_path: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    script = "trap '' TERM INT\necho ready\nwhile true; do sleep 0.2; echo tick; done"
    path = manifest(tmp_path, script)
    command = [PROGRAM, "run", "-f", str(path)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        # What the pod prints and what the job says come by watches of their own, in any order.
        missing = {"| ready\n", "small: Running\n"}
        for line in process.stdout:
            missing = {end for end in missing if not line.endswith(end)}
            if not missing:
                break
        assert not missing
        yield process
        process.kill()


class Machine:
    """A machine of its own, as far as traincrew is concerned."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.directory = self.home / "clusters" / "default"
        self.record = self.directory / "daemon.json"
        self.lock = self.directory / "serving.lock"
        self.environment = {
            **BUFFERED,
            "TRAINCREW_HOME": str(self.home),
            "TRAINCREW_CACHE": str(directory / "cache"),
            "XDG_CONFIG_HOME": str(directory / "config"),
        }

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [PROGRAM, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert result.returncode == code, result.stdout + result.stderr
        return result

    def status(self, name: str = "default") -> dict[str, Any]:
        result = subprocess.run(
            [PROGRAM, "status", "--name", name, "-o", "json"],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        report = json.loads(result.stdout)[0]
        assert result.returncode == (0 if report["state"] == "running" else 1)
        return dict(report)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine("down", "--all")
    assert not machine.home.exists()


def kubeconfig_of(result: subprocess.CompletedProcess[str]) -> Path:
    assert result.stdout.startswith("export KUBECONFIG=")
    assert result.stdout.count("\n") == 1
    return Path(result.stdout.partition("=")[2].strip())


async def start_pod(kubeconfig: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sleeper", "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "busybox:1", "command": ["sleep", SECONDS]}],
        },
    }
    async with Client(load_config(str(kubeconfig))) as client:
        await client.create(PODS, pod)
    await until_pod(kubeconfig, lambda pod: pod["status"].get("phase") == "Running")


async def until_pod(
    kubeconfig: Path, condition: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    async with Client(load_config(str(kubeconfig))) as client:
        while True:
            pod = await client.get(PODS, "sleeper", "default")
            if condition(pod):
                return pod
            assert time.monotonic() < deadline, pod["status"]
            time.sleep(0.02)  # noqa: ASYNC251 - nothing else runs here


def sleepers() -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if command.endswith(f"sleep\0{SECONDS}\0".encode()):
                found.append(int(entry.name))
    return found
