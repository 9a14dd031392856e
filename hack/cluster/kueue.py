"""Kueue in a cluster: its release's program, unmodified, as its own manifests install it.

The program becomes an image of its own, under the name that the manifests give it. The API server
sends requests for webhooks to Services, whose addresses only nodes know, so it needs `ARGUMENTS`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hack.cluster import binaries
from hack.cluster.images import program_image

if TYPE_CHECKING:
    from collections.abc import Callable

    from hack.cluster.cluster import RealCluster

PROGRAM = "kueue"
NAMESPACE = "kueue-system"
DEPLOYMENT = "deployment/kueue-controller-manager"
ARGUMENTS = {"kube-apiserver": ["--enable-aggregator-routing=true"]}
"""Arguments of the cluster's components: with them webhooks are asked at the addresses of pods."""
READY_SECONDS = 120


def install(cluster: RealCluster, report: Callable[[str], None] = lambda _: None) -> None:
    """Install Kueue, and wait until its controller is available.

    Args:
        cluster: A running cluster with `ARGUMENTS`, and with nodes.
        report: Called with lines about the progress.

    Raises:
        BuildFailed: The program cannot be built.
        NotReady: A manifest was refused, or the controller did not become available.
    """
    program = binaries.build(PROGRAM, report)
    directory = binaries.module_directory(PROGRAM) / "config" / "default"
    manifests = cluster.kubectl("kustomize", str(directory))
    (image,) = set(re.findall(r"^ *image: (\S+)$", manifests, re.MULTILINE))
    archive = cluster.directory / "kueue.tar"
    program_image(archive, image, program, "manager")
    cluster.load_images([archive])
    archive.unlink()
    # There is no registry; everything else is as it was published.
    manifests = manifests.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)
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
