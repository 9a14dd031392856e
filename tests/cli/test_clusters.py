"""`traincrew up`, `status`, `restart`, `down` as a person uses them, with kubectl's kubeconfig."""

import json
import os
import signal
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

SECONDS = str(100_000 + os.getpid())
"""What the pods of this process sleep, to find them among all processes."""
PROGRAM = str(Path(sys.executable).with_name("traincrew"))


class Machine:
    """A machine of its own, as far as traincrew is concerned."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.environment = {
            **os.environ,
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
            timeout=60,
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
            timeout=60,
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
    deadline = time.monotonic() + 20
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


async def test_pods_survive_a_crash_and_a_restart_and_end_with_down(machine: Machine) -> None:
    kubeconfig = kubeconfig_of(machine("up"))
    await start_pod(kubeconfig)
    process = sleepers()
    assert len(process) == 1
    before = machine.status()
    assert before["state"] == "running"
    assert before["pods"] == {"Running": 1}
    assert before["nodes"] == ["local"]

    os.kill(before["process"], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while machine.status()["state"] != "crashed":
        assert time.monotonic() < deadline
    again = machine("up")
    assert "is back after a crash" in again.stderr
    assert kubeconfig_of(again) == kubeconfig
    after = machine.status()
    assert after["server"] == before["server"]
    assert after["process"] != before["process"]
    assert sleepers() == process

    assert kubeconfig_of(machine("restart")) == kubeconfig
    pod = await until_pod(kubeconfig, lambda pod: pod["status"].get("phase") == "Running")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert sleepers() == process

    assert "nothing of it is left" in machine("down").stderr
    assert sleepers() == []
    assert not machine.home.exists()


async def test_down_after_a_crash_ends_the_pods_too(machine: Machine) -> None:
    kubeconfig = kubeconfig_of(machine("up"))
    await start_pod(kubeconfig)
    os.kill(machine.status()["process"], signal.SIGKILL)
    machine("down")
    assert sleepers() == []
    assert not machine.home.exists()


def test_up_again_changes_nothing(machine: Machine) -> None:
    first = machine("up", "--nodes", "2")
    process = machine.status()["process"]
    second = machine("up")
    assert second.stdout == first.stdout
    assert second.stderr == ""
    assert machine.status()["process"] == process
    third = machine("up", "--nodes", "3")
    assert third.stdout == first.stdout
    assert "is up already with other options" in third.stderr
    assert machine.status()["nodes"] == ["local-0", "local-1"]


def test_clusters_side_by_side_in_one_kubeconfig(machine: Machine, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    one = machine("up", "--name", "one", "--kubeconfig", str(config))
    assert one.stdout == f"export KUBECONFIG={config}\n"
    machine("up", "--name", "two", "--kubeconfig", str(config))
    assert load_config(str(config), "traincrew-one").server != load_config(str(config)).server
    assert "cluster one: running" in machine("status").stdout
    machine("down", "--name", "one")
    assert machine.status("two")["state"] == "running"
    assert machine.status("one")["state"] == "absent"
    machine("down", "--name", "two")
    assert not config.exists()


def test_data_can_be_kept(machine: Machine) -> None:
    kubeconfig = kubeconfig_of(machine("up", "--nodes", "2"))
    machine("down", "--keep-data")
    assert machine.status()["state"] == "stopped"
    assert kubeconfig_of(machine("up")) == kubeconfig
    assert machine.status()["nodes"] == ["local-0", "local-1"]


def test_two_at_once_start_one_cluster(machine: Machine) -> None:
    command = [PROGRAM, "up"]
    both = [
        subprocess.Popen(
            command, env=machine.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0][0] == outputs[1][0]
    assert sum(b"is up" in errors for _, errors in outputs) == 1


def test_in_the_foreground(machine: Machine) -> None:
    with subprocess.Popen(
        [PROGRAM, "up", "--foreground"],
        env=machine.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("export KUBECONFIG=")
        assert machine.status()["process"] == process.pid
        assert "cluster default: running" in machine("status").stdout
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 0


def test_a_broken_catalog_is_said_before_anything_starts(machine: Machine, tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text("environments: [{name: x, pithon: current}]\n")
    result = machine("up", "--images", str(catalog), code=1)
    assert "pithon" in result.stderr
    assert "daemon.log" in result.stderr
    assert result.stdout == ""
    assert machine.status()["state"] == "absent"


def test_without_a_cluster(machine: Machine) -> None:
    assert "there is no cluster" in machine("status", code=1).stdout
    assert "there is no cluster" in machine("down").stderr
    assert "`traincrew up` starts one" in machine("restart", code=1).stderr
