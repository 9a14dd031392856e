"""Kueue in a cluster: its release's program, unmodified, as its own manifests install it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hack.cluster import binaries, published
from hack.cluster.processes import NotReady

if TYPE_CHECKING:
    from collections.abc import Callable

    from hack.cluster.cluster import RealCluster

PROGRAM = "kueue"
NAMESPACE = "kueue-system"
DEPLOYMENT = "deployment/kueue-controller-manager"
IMAGE = "us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue"
READY_SECONDS = 120


def install(cluster: RealCluster, report: Callable[[str], None] = lambda _: None) -> None:
    """Install Kueue, and wait until its controller is available.

    Args:
        cluster: A running cluster with nodes.
        report: Called with lines about the progress.

    Raises:
        BuildFailed: The program cannot be built.
        NotReady: The manifests name another image, one was refused, or the controller did not
            become available.
    """
    directory = binaries.module_directory(PROGRAM) / "config" / "default"
    manifests = cluster.kubectl("kustomize", str(directory))
    if IMAGE not in manifests:
        raise NotReady(f"the manifests of Kueue do not name the image {IMAGE}")
    published.apply(cluster, manifests, {IMAGE: published.Program(PROGRAM, "manager")}, report)
    wait(cluster)
    report("Kueue ready")


def wait(cluster: RealCluster) -> None:
    """Wait until the controller is available.

    Raises:
        NotReady: It did not become available in time.
    """
    cluster.kubectl(
        f"--namespace={NAMESPACE}",
        "wait",
        DEPLOYMENT,
        "--for=condition=Available",
        f"--timeout={READY_SECONDS}s",
    )
