"""Other operators at the same work: each a process beside a new cluster of its own, as ours is.

They are built from their published modules (`hack/cluster/modules`), and have the limits of their
clients and queues lifted, which would otherwise be all that is measured; those whose names say so,
and training-operator, which cannot be told, have the limits with which they are installed. No
webhook of theirs is called: a rather faster JobSet than an installed one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from hack.cluster import binaries

from benchmarks._usage import Meter, peak_mebibytes
from benchmarks.real_cluster import audit, jobs, projects
from benchmarks.real_cluster.bare import BareClient
from benchmarks.real_cluster.runs import QUIET, Run, patience

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.real_cluster.runs import HistoryRunner

_SPACE, _ACCOUNT = "peers", "peer"
_USER = f"system:serviceaccount:{_SPACE}:{_ACCOUNT}"
_KUBECONFIG = "kubeconfig"
_CERTIFICATES = "k8s-webhook-server/serving-certs"
_READY_SECONDS = 60.0
Document = dict[str, Any]


@dataclass(frozen=True)
class Peer:
    """Another operator.

    Attributes:
        program: A key of `binaries.PROGRAMS`.
        load: Its jobs.
        options: How it is started; called with its directory.
        ready: What its log says when it works.
        objects: What it needs on the cluster.
        certificates: Where it looks for the certificate of its webhooks, if nobody can tell it.
    """

    program: str
    load: jobs.Load
    options: Callable[[Path], list[str]]
    ready: str
    objects: tuple[Document, ...] = ()
    certificates: Path | None = None


def _installed_mpi_operator_options(directory: Path) -> list[str]:
    return [f"-kubeConfig={directory / _KUBECONFIG}", f"-lock-namespace={_SPACE}"]


def _mpi_operator_options(directory: Path) -> list[str]:
    return [
        *_installed_mpi_operator_options(directory),
        "-kube-api-qps=2000",
        "-kube-api-burst=4000",
        "-controller-queue-rate-limit=2000",
        "-controller-queue-burst=4000",
        "-threadiness=16",
    ]


def _jobset_options(directory: Path) -> list[str]:
    settings = directory / "jobset.yaml"
    document = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "internalCertManagement": {"enable": False},
    }
    settings.write_text(yaml.safe_dump(document))
    return [
        f"--kubeconfig={directory / _KUBECONFIG}",
        f"--config={settings}",
        "--leader-elect=false",
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--zap-log-level=info",
    ]


def _training_operator_options(directory: Path) -> list[str]:
    return [
        f"--kubeconfig={directory / _KUBECONFIG}",
        "--enable-scheme=pytorchjob",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]


_MPI_OPERATOR = Peer(
    "mpi-operator", jobs.mpi_job(projects.WORKERS), _mpi_operator_options, "Started workers"
)
PEERS = {
    "mpi-operator": _MPI_OPERATOR,
    "mpi-operator-as-installed": replace(_MPI_OPERATOR, options=_installed_mpi_operator_options),
    "training-operator": Peer(
        "training-operator",
        jobs.pytorch_job(projects.WORKERS),
        _training_operator_options,
        "Starting workers",
        (
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "training-operator-webhook-cert", "namespace": _SPACE},
            },
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "validator.training-operator.kubeflow.org"},
            },
        ),
        Path("/tmp", _CERTIFICATES),
    ),
    "jobset": Peer(
        "jobset",
        jobs.job_set(projects.WORKERS),
        _jobset_options,
        "Starting workers",
    ),
}


@dataclass
class PeerRun(Run):
    """The results of a peer's run.

    Attributes:
        writes: Its accepted writes, for each job.
        cpu: Seconds of CPU time that it used.
        peak_mebibytes: Most memory it ever had.
    """

    writes: float = 0.0
    cpu: float = 0.0
    peak_mebibytes: float = 0.0


def run(runner: HistoryRunner, peer: Peer, count: int) -> PeerRun:
    """Let a peer run this many jobs on a new cluster.

    Raises:
        SystemExit: It did not start, or its jobs did not run in time.
    """
    directory = _install(runner, peer)
    path = runner.directory / "peer.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [str(binaries.build(peer.program, print)), *peer.options(directory)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(runner.directory), "MY_POD_NAMESPACE": _SPACE},
            cwd=runner.directory,
        )
    try:
        deadline = time.monotonic() + _READY_SECONDS
        while peer.ready not in path.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the peer did not start:\n{path.read_text()[-3000:]}")
            time.sleep(0.2)
        return asyncio.run(_run(runner, peer, count, process.pid))
    finally:
        process.kill()
        process.wait()
        if peer.certificates is not None:
            shutil.rmtree(peer.certificates)


def _install(runner: HistoryRunner, peer: Peer) -> Path:
    """Install what it needs, and give it an account of its own that may do everything.

    Returns:
        A directory with a kubeconfig of this account.
    """
    kubectl = runner.cluster.kubectl
    if peer.load.resource != runner.load.resource:
        runner.cluster.create(projects.definition(peer.load.resource))
        kubectl("wait", "--for=condition=Established", "crd", "--all")
    kubectl("create", "namespace", _SPACE)
    for document in peer.objects:
        runner.cluster.create(document)
    kubectl("create", "serviceaccount", _ACCOUNT, "-n", _SPACE)
    kubectl(
        *("create", "clusterrolebinding", _ACCOUNT, "--clusterrole=cluster-admin"),
        f"--serviceaccount={_SPACE}:{_ACCOUNT}",
    )
    directory = runner.directory / "peer"
    directory.mkdir(exist_ok=True)
    runner.write_kubeconfig(_ACCOUNT, _SPACE, directory / _KUBECONFIG)
    _make_certificate(peer.certificates or runner.directory / _CERTIFICATES)
    return directory


def _make_certificate(directory: Path) -> None:
    """Make a certificate for webhooks that nobody calls."""
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "1", "-subj", "/CN=webhook"),
            *("-keyout", str(directory / "tls.key"), "-out", str(directory / "tls.crt")),
        ],
        check=True,
        capture_output=True,
    )


async def _run(runner: HistoryRunner, peer: Peer, count: int, pid: int) -> PeerRun:
    async with BareClient(runner.cluster.kubeconfig) as user:
        said = jobs.RunningJobs(user, peer.load, count)
        pods = jobs.RunningPods(user, peer.load.pods * count)
        following = [asyncio.create_task(each.follow()) for each in (said, pods)]
        await said.listening.wait()
        await pods.listening.wait()
        meter = Meter({"peer": pid, **runner.pids()})
        requests = runner.requests()
        started = time.monotonic()
        await jobs.create(user, peer.load, count)
        created = time.monotonic()
        all_pods = await pods.all(patience(count))
        effort = meter.read().total
        running = await said.all(patience(count))
        await asyncio.sleep(QUIET)
        used = meter.read()
        for task in following:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    writes, _ = audit.writes(audit.read(runner.cluster.audit_log), _USER, jobs.NAMESPACE)
    return PeerRun(
        created - started,
        pods.half() - started,
        all_pods - started,
        running - started,
        running - started,
        effort,
        used,
        runner.requests() - requests,
        sum(writes.values()) / count,
        used.by_process["peer"],
        peak_mebibytes(pid),
    )
