"""MPIJobs on the embedded cluster: mpirun starts ranks in the workers by ssh."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites.shell import User, running

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / "examples/mpi/pi.yaml"
ENDED = re.compile(r"^  (\S+) +(exit code \d+|stopped with the job) ", re.MULTILINE)
NODES = "--nodes=2"
"""Room for all pods."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """Someone with Open MPI's environment, and without a cluster."""
    found = User(tmp_path, default_cache())
    found.traincrew("images", "pull", "mpioperator/mpi-pi:openmpi")
    yield found
    assert "Traceback" not in found.log()


def pi(*command: str, workers: int = 2, **spec: Any) -> dict[str, Any]:
    """The example with another command of the launcher, and further fields of the spec."""
    job: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    specs = job["spec"]["mpiReplicaSpecs"]
    (launcher,) = specs["Launcher"]["template"]["spec"]["containers"]
    launcher |= {"command": list(command), "args": []}
    for each in specs.values():
        (container,) = each["template"]["spec"]["containers"]
        del container["resources"]
    specs["Worker"]["replicas"] = workers
    job["spec"] |= spec
    return job


def saved(user: User, job: dict[str, Any]) -> str:
    """A file with a manifest."""
    path = user.home / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return str(path)


def approximation(printed: str) -> float:
    """What the program has computed."""
    (found,) = re.findall(r"pi is approximately (\S+)", printed)
    return float(found)


def test_the_example_of_mpi_operator_computes_pi(user: User) -> None:
    printed = user.traincrew("run", "-f", str(EXAMPLE))

    assert abs(approximation(printed) - 3.1416) < 0.01
    for line in ("Workers: 2", "Rank 0 on host pi-worker-0", "Rank 1 on host pi-worker-1"):
        assert line in printed
    ends = dict(ENDED.findall(printed))
    assert ends.pop("pi-worker-0") == ends.pop("pi-worker-1") == "stopped with the job"
    assert list(ends.values()) == ["exit code 0"]


def test_the_launcher_is_a_worker_too(user: User) -> None:
    job = pi("mpirun", "-n", "2", "/home/mpiuser/pi", workers=1, runLauncherAsWorker=True)
    printed = user.traincrew("run", "-f", saved(user, job))

    assert "Rank 0 on host pi-launcher" in printed
    assert "Rank 1 on host pi-worker-0" in printed


def test_root_runs_the_workers_of_a_manifest_that_names_neither_user_nor_sshd(user: User) -> None:
    job = pi("mpirun", "-n", "2", "/home/mpiuser/pi")
    del job["spec"]["sshAuthMountPath"]
    for each in job["spec"]["mpiReplicaSpecs"].values():
        (container,) = each["template"]["spec"]["containers"]
        del container["securityContext"]
    (worker,) = job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    del worker["command"], worker["args"]
    printed = user.traincrew("run", "-f", saved(user, job))

    assert abs(approximation(printed) - 3.1416) < 0.01


def test_a_program_that_fails_ends_the_run_with_its_exit_code(user: User) -> None:
    policy = {"backoffLimit": 0}
    job = pi("mpirun", "-n", "2", "sh", "-c", "exit 7", runPolicy=policy)
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Never"
    printed = user.traincrew("run", "-f", saved(user, job), code=7)

    assert "BackoffLimitExceeded" in printed


def test_suspended_resumed_and_scaled(user: User) -> None:
    waits = "until [ -e /tmp/enough ]; do sleep 0.2; done"
    job = pi("sh", "-c", waits, launcherCreationPolicy="WaitForWorkersReady")
    with running(user, NODES):
        user.create(job)
        holds(user, "Running")
        patched(user, '{"spec":{"runPolicy":{"suspend":true}}}')
        holds(user, "Suspended")
        user.until("no pod is left", lambda: not user.get("pods")["items"])
        patched(user, '{"spec":{"runPolicy":{"suspend":false}}}')
        holds(user, "Running")

        user.kubectl("scale", "mpijob/pi", "--replicas=3")
        hosts = ("exec", "job/pi-launcher", "--", "/etc/mpi/discover_hosts.sh")
        user.until(
            "the launcher finds the new worker",
            lambda: "pi-worker-2.pi.default.svc" in user.kubectl(*hosts, code=None),
        )
        assert user.get("mpijob", "pi")["status"]["restarts"] == 0
        user.kubectl("exec", "job/pi-launcher", "--", "touch", "/tmp/enough")
        holds(user, "Succeeded")


def patched(user: User, change: str) -> None:
    """Change the job."""
    user.kubectl("patch", "mpijob/pi", "--type=merge", f"--patch={change}")


def holds(user: User, condition: str) -> None:
    """Wait for a condition."""
    user.kubectl("wait", "mpijob/pi", f"--for=condition={condition}", "--timeout=120s")
