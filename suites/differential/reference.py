"""The reference: only etcd and kube-apiserver, on loopback, without root, for one run."""

from __future__ import annotations

import shutil
import socket
import ssl
import urllib.request
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from hack.cluster import binaries
from hack.cluster.certificates import Authority, service_account_key, write_kubeconfig
from hack.cluster.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROGRAMS = ("etcd", "kube-apiserver")
READY_SECONDS = 90.0
SERVICE_RANGE = "10.0.0.0/16"
FIRST_SERVICE = "10.0.0.1"


def missing(programs: tuple[str, ...] = PROGRAMS) -> list[str]:
    """Return what this machine lacks to run the programs; empty when nothing."""
    unbuilt = binaries.unbuilt(programs)
    if unbuilt and shutil.which("go") is None:
        return [f"Go, to build {' and '.join(unbuilt)}"]
    return []


@contextmanager
def reference_server(directory: Path, on_progress: Callable[[str], None] = print) -> Iterator[Path]:
    """Run a kube-apiserver with its own etcd; yield the administrator's kubeconfig.

    Args:
        directory: for all files; logs are in ``logs``.
        on_progress: called with the progress of builds.

    Raises:
        binaries.BuildFailed: a program could not be built.
        NotReady: one of them did not start.
    """
    programs = {name: str(binaries.build(name, on_progress)) for name in PROGRAMS}
    authority = Authority(directory / "certificates")
    serving = authority.server("kube-apiserver", ["127.0.0.1", FIRST_SERVICE])
    tokens = service_account_key(authority.directory)
    store, peers, port = _free_ports(3)
    url = f"https://127.0.0.1:{port}"
    admin = authority.client("admin", "admin", "system:masters")
    kubeconfig = write_kubeconfig(directory / "kubeconfig", url, authority.certificate, admin)
    with ExitStack() as stack:

        def start(name: str, ready_url: str, arguments: list[str]) -> None:
            process = Process(name, directory / "processes", directory / "logs" / f"{name}.log")
            stack.callback(process.stop)
            process.start([programs[name], *arguments])
            process.wait(lambda: _answers(ready_url, authority.certificate), READY_SECONDS)

        start("etcd", f"http://127.0.0.1:{store}/health", [
            f"--data-dir={directory / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{store}",
            f"--advertise-client-urls=http://127.0.0.1:{store}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ])  # fmt: skip
        start("kube-apiserver", f"{url}/readyz", [
            f"--etcd-servers=http://127.0.0.1:{store}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={authority.certificate}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={tokens.key}",
            f"--service-account-key-file={tokens.certificate}",
            # Nothing uses the Service `kubernetes`, and its endpoints must not be loopback.
            "--endpoint-reconciler-type=none",
            # One client sends all requests; none may be queued.
            "--enable-priority-and-fairness=false",
            "--profiling=false",
        ])  # fmt: skip
        yield kubeconfig


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _answers(url: str, authority: Path) -> bool:
    try:
        context = ssl.create_default_context(cafile=str(authority))
        with urllib.request.urlopen(url, timeout=2, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
