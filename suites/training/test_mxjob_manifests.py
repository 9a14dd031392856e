"""Manifests written for mxnet-operator run as they are, with the commands of its README.

More of them can be tested: TRAINCREW_SUITE_MXNET_MANIFESTS names directories.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites import processes, shell

from traincrew.local.node import count_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.images import Environment

Document = dict[str, Any]

HERE = Path(__file__).parent
DIRECTORIES = [
    HERE / "manifests/mxnet",
    *map(Path, filter(None, os.environ.get("TRAINCREW_SUITE_MXNET_MANIFESTS", "").split(":"))),
]
MANIFESTS = [
    path
    for directory in DIRECTORIES
    for path in sorted(directory.glob("*.yaml"))
    if re.search(r"^kind: \"?MxJob", path.read_text(), re.MULTILINE)
]
GPU = "alpha.kubernetes.io/nvidia-gpu"
WITH_GPUS = [path for path in MANIFESTS if GPU in path.read_text()]


@pytest.fixture(scope="module")
def plain(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, mxnet: Environment
) -> Iterator[shell.User]:
    """A user with a cluster without GPUs."""
    with cluster(tmp_path_factory.mktemp("plain"), cache, "--gpus=0") as (user, _):
        yield user


@pytest.fixture(scope="module")
def with_gpus(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, mxnet: Environment
) -> Iterator[shell.User]:
    """A user with a cluster that pretends to have GPUs."""
    with cluster(tmp_path_factory.mktemp("gpus"), cache, "--gpus=3") as (user, said):
        if count_gpus() < 3:
            assert "warning: --gpus 3 is pretended" in said
        yield user


@contextmanager
def cluster(home: Path, cache: Path, *options: str) -> Iterator[tuple[shell.User, str]]:
    """Yield a user with a cluster, and what was said when it was started."""
    user = shell.User(home, cache, "mxj,job,pod,event")
    yield user, user.traincrew("up", *options, "--kubeconfig", str(user.kubeconfig))
    log = user.log()
    user.traincrew("down")
    assert "Traceback" not in log, log
    shutil.rmtree(home)


def job_of(path: Path) -> tuple[str, str]:
    """Return the resource with its group, and the name of the job in a manifest."""
    job = yaml.safe_load(path.read_text())
    return f"mxjob.{job['apiVersion'].partition('/')[0]}", job["metadata"]["name"]


def runs_by_its_readme(user: shell.User, path: Path) -> None:
    """Create the job, look at it, wait for its end, read its logs and delete it."""
    kind, name = job_of(path)
    assert user.kubectl("create", "-f", str(path)) == f"{kind}/{name} created\n"
    user.until(f"{name} ends", lambda: "state" in user.get(kind, name).get("status", {}))

    shown = yaml.safe_load(user.kubectl("get", "-f", str(path), "-o", "yaml"))
    spec, status = shown["spec"], shown["status"]
    assert (status["phase"], status["state"]) == ("Done", "Succeeded"), user.state()
    assert status["controlPaused"] is False
    assert re.fullmatch("[0-9a-z]{4}", spec["RuntimeId"])
    counts = {each["mxReplicaType"]: each["replicas"] for each in spec["replicaSpecs"]}
    assert [
        (each["Mx_replica_type"], each["state"], each["ReplicasStates"])
        for each in status["replicaStatuses"]
    ] == [(type_, "Succeeded", {"Succeeded": count}) for type_, count in counts.items()]

    names = [
        f"{name}-{type_.lower()}-{spec['RuntimeId']}-{index}"
        for type_, count in counts.items()
        for index in range(count)
    ]

    def completed() -> list[str]:
        rows = [line.split() for line in user.kubectl("get", "job").splitlines()[1:]]
        return sorted(row[0] for row in rows if row[2] == "1/1")

    # Their controller writes later than the operator that the pods have ended.
    user.until("its Jobs are complete", lambda: completed() == sorted(names), 30)
    services = user.kubectl("get", "service", "-l", "mxnet.mlkube.io=", "-o", "name").split()
    assert services == ([f"service/{names[0]}"] if len(names) > 1 else [])
    for each in names:
        log = user.kubectl("logs", f"job/{each}")
        if "-worker-" in each:
            assert float(re.findall(r"^validation accuracy: (\S+)$", log, re.MULTILINE)[0]) > 0.8
        else:
            assert "serves until all workers have finished" in log

    assert user.kubectl("delete", "-f", str(path)).startswith(f'{kind} "{name}" deleted')
    left = "mxjobs,jobs,pods,services", "-l", f"mxnet.mlkube.io/job-name={name}"
    user.until(f"nothing of {name} is left", lambda: not user.get(*left)["items"])
    user.until("no process is left", lambda: not processes.of_pods(f"{name}-.*"), 15)


@pytest.mark.parametrize(
    "path", [path for path in MANIFESTS if path not in WITH_GPUS], ids=lambda path: path.stem
)
def test_a_manifest_without_gpus(plain: shell.User, path: Path) -> None:
    runs_by_its_readme(plain, path)


@pytest.mark.parametrize("path", WITH_GPUS, ids=lambda path: path.stem)
def test_a_job_without_its_gpus_says_so(plain: shell.User, path: Path) -> None:
    kind, name = job_of(path)
    plain.kubectl("create", "-f", str(path))
    text = f"0/1 nodes are available: 1 Insufficient {GPU}"
    plain.until(
        "the job says why it waits",
        lambda: text in plain.get(kind, name).get("status", {}).get("message", ""),
    )
    status = plain.get(kind, name)["status"]
    assert status["phase"] == "Creating"
    assert "worker 0: Unschedulable: " in status["message"]
    own = f"mxnet.mlkube.io/job-name={name},job_type=WORKER"
    phases = {pod["status"]["phase"] for pod in plain.get("pods", "-l", own)["items"]}
    assert phases == {"Pending"}
    plain.kubectl("delete", "-f", str(path))
    # Scheduler and servers have started, and ignore the signal that asks them to end.
    plain.until("no process is left", lambda: not processes.of_pods(f"{name}-.*"), 45)


@pytest.mark.parametrize("path", WITH_GPUS, ids=lambda path: path.stem)
def test_a_manifest_on_pretended_gpus(with_gpus: shell.User, path: Path) -> None:
    runs_by_its_readme(with_gpus, path)
