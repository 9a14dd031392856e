"""Manifests as other projects publish them, with images of programs that are built here.

Each program becomes an image of its own, under the name that the manifests give it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from hack.cluster import binaries
from hack.cluster.images import program_image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hack.cluster.cluster import RealCluster


class Program(NamedTuple):
    """What an image has.

    Attributes:
        name: A key of `binaries.PROGRAMS`.
        inside: Where the manifests expect it in the image, without the first slash.
    """

    name: str
    inside: str


def apply(
    cluster: RealCluster,
    manifests: str,
    programs: Mapping[str, Program],
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Load the images that manifests name, and create or change what the manifests have.

    Args:
        cluster: A running cluster with nodes.
        manifests: YAML documents.
        programs: By their images, with a tag or for any tag. Other images are not loaded.
        report: Called with lines about the progress.

    Raises:
        BuildFailed: A program cannot be built.
        NotReady: A manifest was refused.
    """
    for image in sorted(set(re.findall(r"^[ -]*image: (\S+)$", manifests, re.MULTILINE))):
        if program := programs.get(image) or programs.get(_without_tag(image)):
            archive = cluster.directory / f"{program.name}.tar"
            program_image(archive, image, binaries.build(program.name, report), program.inside)
            cluster.load_images([archive])
            archive.unlink()
    # There is no registry; everything else is as it was published.
    manifests = manifests.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=manifests)


def _without_tag(image: str) -> str:
    name, _, tag = image.rpartition(":")
    return image if "/" in tag or not name else name
