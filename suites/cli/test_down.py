"""`traincrew down` of clusters that lost a file, or their process, or both."""

import os
import signal
import socket
import subprocess
import sys
from urllib.parse import urlsplit

from cli.programs import Machine, kubeconfig_of, sleepers, start_pod, until
from traincrew.cli.cluster import process
from traincrew.engine.config import load_config


async def test_down_ends_a_cluster_that_lost_its_lock_file(machine: Machine) -> None:
    await start_pod(kubeconfig_of(machine("up")))
    daemon = machine.status()["process"]
    machine.lock.unlink()
    assert machine.status()["state"] == "running"
    assert "nothing of it is left" in machine("down").stderr
    assert process.start_token(daemon) is None
    assert sleepers() == []


async def test_down_ends_pods_whose_server_was_killed(machine: Machine) -> None:
    """Neither its record nor its port is needed for that."""
    kubeconfig = kubeconfig_of(machine("up"))
    await start_pod(kubeconfig)
    daemon = machine.status()["process"]
    os.kill(daemon, signal.SIGKILL)
    until(lambda: process.start_token(daemon) is None)
    machine.record.unlink()
    assert len(sleepers()) == 1
    assert machine.status()["state"] == "crashed"
    port = urlsplit(load_config(str(kubeconfig)).server).port
    with socket.create_server(("127.0.0.1", port)):
        assert "nothing of it is left" in machine("down").stderr
    assert sleepers() == []
    assert not machine.home.exists()


async def test_a_cluster_that_was_stopped_with_its_pods_did_not_crash(machine: Machine) -> None:
    await start_pod(kubeconfig_of(machine("up")))
    machine("down", "--keep-data")
    assert sleepers() == []
    assert machine.status()["state"] == "stopped"


def test_nothing_is_removed_while_a_server_that_cannot_be_identified_runs(
    machine: Machine,
) -> None:
    kubeconfig = kubeconfig_of(machine("up"))
    daemon = machine.status()["process"]
    content = machine.lock.read_text()
    machine.record.unlink()
    machine.lock.write_text("nobody\n")
    assert "is served by a process that cannot be identified" in machine("down", code=1).stderr
    assert kubeconfig.is_file()
    assert process.start_token(daemon) is not None
    machine.lock.write_text(content)


async def test_down_ends_a_cluster_that_lost_its_record(machine: Machine) -> None:
    await start_pod(kubeconfig_of(machine("up")))
    daemon = machine.status()["process"]
    machine.record.unlink()
    assert machine.status()["state"] == "running"
    assert machine.status()["process"] == daemon
    assert "nothing of it is left" in machine("down").stderr
    assert process.start_token(daemon) is None
    assert sleepers() == []
    assert not machine.home.exists()


def serve(machine: Machine) -> subprocess.CompletedProcess[str]:
    """Start a server by hand."""
    reading, writing = os.pipe()
    try:
        return subprocess.run(
            [sys.executable, "-P", "-m", "traincrew.cli.cluster.server", "default", str(writing)],
            env=machine.environment,
            pass_fds=(writing,),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
        os.close(reading)


def test_a_second_server_fails_and_leaves_the_first_one_alone(machine: Machine) -> None:
    machine("up")
    before = machine.status()
    record = machine.record.read_bytes()
    second = serve(machine)
    assert second.returncode == 1
    assert f"is served by process {before['process']} already" in second.stderr
    assert "Traceback" not in second.stderr
    assert machine.record.read_bytes() == record
    assert machine.status() == before


def test_a_server_does_not_bring_back_a_cluster_that_was_removed(machine: Machine) -> None:
    late = serve(machine)
    assert late.returncode == 1
    assert "was removed while it was starting" in late.stderr
    assert not machine.home.exists()
