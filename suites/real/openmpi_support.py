"""A user with MPIClusters on the real cluster, and a scheduler beside that of the cluster."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hack.cluster import binaries
from hack.cluster.network import inside
from hack.cluster.processes import Process
from suites import git_servers
from suites.openmpi_user import Steps

from hack import images

from . import install_support
from .install_support import DEPLOY, namespace, uninstall

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster


class User(install_support.User, Steps):
    """A user with MPIClusters in a namespace."""


@contextmanager
def installed(cluster: RealCluster, space: str, *needed: str) -> Iterator[User]:
    """Yield a user with a namespace; the operator is installed, and these images are there."""
    cluster.load_images([images.build(name) for name in needed])
    uninstall(cluster)
    with namespace(cluster, space):
        found = User(cluster, space)
        try:
            cluster.kubectl("create", "-f", str(DEPLOY))
            found.rolled_out()
            yield found
        finally:
            uninstall(cluster)


def place(cluster: RealCluster) -> git_servers.Place:
    """Return where pods reach servers of this machine."""
    network = cluster.network
    return git_servers.Place(network.address, tuple(inside(network.control_plane, [])))


@contextmanager
def scheduler(cluster: RealCluster, name: str, directory: Path) -> Iterator[None]:
    """Run one more kube-scheduler, for pods that name it.

    Args:
        cluster: The cluster.
        name: As in the field ``schedulerName``.
        directory: Of its files.
    """
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.directory / "kube-scheduler.kubeconfig")},
        "profiles": [{"schedulerName": name}],
    }
    file = directory / "configuration.json"
    file.write_text(json.dumps(configuration))
    command = [str(binaries.path("kube-scheduler")), f"--config={file}", "--secure-port=0"]
    process = Process(name, directory, directory / f"{name}.log")
    process.start(inside(cluster.network.control_plane, command))
    try:
        yield
    finally:
        process.stop()
