"""A cluster is what its lock says, whatever became of its other files; more in suites/cli."""

import os
import subprocess
import sys

from cli.programs import Machine, kubeconfig_of, sleepers, start_pod
from traincrew.cli.cluster import process


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
