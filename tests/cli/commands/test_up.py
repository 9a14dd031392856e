"""A cluster that stays, through a crash and a restart; more in suites/cli."""

import os
import signal
import time

from cli.programs import Machine, kubeconfig_of, sleepers, start_pod, until_pod


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
