"""`traincrew up`, `status`, `restart`, `down` in all their ways."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cli.programs import (
    PROGRAM,
    Machine,
    kubeconfig_of,
    manifest,
    sleepers,
    start_pod,
    until_pod,
)
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import PODS
from traincrew.local.node import count_gpus


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
    assert machine("up", "--nodes", "2").stdout == first.stdout
    third = machine("up", "--nodes", "3", code=1)
    assert third.stdout == ""
    assert "is up already with other options (--nodes)" in third.stderr
    assert "`traincrew down` first" in third.stderr
    assert machine.status()["nodes"] == ["local-0", "local-1"]


async def test_a_relative_host_path_is_below_the_directory_up_was_started_in(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "numbers").write_text("1 2 3\n")
    monkeypatch.chdir(tmp_path)
    kubeconfig = kubeconfig_of(machine("up"))
    monkeypatch.chdir("/")
    machine("restart")
    pod = {
        "metadata": {"name": "sleeper"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1",
                    "command": ["cp", "/data/numbers", "/data/copy"],
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }
            ],
            "volumes": [{"name": "data", "hostPath": {"path": "data"}}],
        },
    }
    async with Client(load_config(str(kubeconfig))) as client:
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", **pod}, "default")
    await until_pod(kubeconfig, lambda pod: pod["status"].get("phase") == "Succeeded")
    assert (tmp_path / "data" / "copy").read_text() == "1 2 3\n"


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
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_an_invalid_catalog_is_reported_before_anything_starts(
    machine: Machine, tmp_path: Path
) -> None:
    catalog = tmp_path / "catalog.yaml"
    catalog.write_text("environments: [{name: x, pithon: current}]\n")
    result = machine("up", "--images", str(catalog), code=2)
    assert 'pithon: is not a field of an environment; did you mean "python"?' in result.stderr
    assert result.stdout == ""
    assert machine.status()["state"] == "absent"


def test_without_a_cluster(machine: Machine) -> None:
    assert "there is no cluster" in machine("status", code=1).stdout
    assert "there is no cluster" in machine("down").stderr
    assert "`traincrew up` starts one" in machine("restart", code=1).stderr
    named = machine("restart", "--name", "other", code=1).stderr
    assert "`traincrew up --name other` starts one" in named


def test_the_operator_runs_elsewhere_and_ends_cleanly(
    machine: Machine, tmp_path: Path, environment: dict[str, str]
) -> None:
    kubeconfig = kubeconfig_of(machine("up", "--no-operator"))
    flags = ["-kubeconfig", str(kubeconfig), "-v", "4", "-stderrthreshold", "INFO", "-logtostderr"]
    with subprocess.Popen(
        [PROGRAM, "operator", *flags], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        assert any("operator is ready" in line for line in lines)
        manifest(tmp_path, "echo hello")
        create = ["kubectl", "--kubeconfig", str(kubeconfig), "create", "-f"]
        subprocess.run([*create, str(tmp_path / "job.yaml")], check=True, capture_output=True)
        wait = ["kubectl", "--kubeconfig", str(kubeconfig), "wait", "--timeout=120s"]
        subprocess.run(
            [*wait, "--for=condition=Succeeded", "chj/small"], check=True, capture_output=True
        )
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[1]
        assert process.returncode == 0
        assert "Traceback" not in rest


def test_the_number_of_nodes_and_gpus(machine: Machine) -> None:
    up = machine("up", "--nodes", "2", "--gpus", "3")
    if count_gpus() < 3:
        assert "warning: --gpus 3 is pretended: this machine has" in up.stderr
    kubeconfig = kubeconfig_of(up)
    columns = "custom-columns=:.metadata.name,:.status.allocatable.nvidia\\.com/gpu"
    get = ["kubectl", "--kubeconfig", str(kubeconfig), "get", "nodes", "-o", columns]
    output = subprocess.run(get, check=True, capture_output=True, text=True).stdout
    assert output.split() == ["local-0", "2", "local-1", "1"]


def test_the_operator_runs_in_its_own_pod(machine: Machine, tmp_path: Path) -> None:
    """`kubectl apply -f deploy/`, then a job: what an administrator does on a real cluster."""
    kubeconfig = kubeconfig_of(machine("up", "--no-operator"))

    def kubectl(*arguments: str) -> str:
        command = ["kubectl", "--kubeconfig", str(kubeconfig), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    kubectl("apply", "-f", str(Path(__file__).parents[2] / "deploy"))
    kubectl(
        "--namespace=chainer-operator",
        "wait",
        "--timeout=180s",
        "--for=condition=Available",
        "deployment/chainer-operator",
    )
    user = kubectl(
        "--namespace=chainer-operator", "exec", "deployment/chainer-operator", "--", "id", "-u"
    )
    assert user.strip() == "65532"
    manifest(tmp_path, "echo hello")
    kubectl("create", "-f", str(tmp_path / "job.yaml"))
    kubectl("wait", "--timeout=120s", "--for=condition=Succeeded", "chj/small")
    lease = kubectl("--namespace=chainer-operator", "get", "lease", "chainer-operator")
    assert "chainer-operator-" in lease
