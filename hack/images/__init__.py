"""Container images of the project, built on machines with and without a container engine.

The Dockerfiles below ``images/`` are ordinary ones. `build` builds them with buildah, on a base
image made by debootstrap, into files that ``docker load`` and ``ctr images import`` read.
"""

from hack.images.builder import build
from hack.images.catalog import image, names
from hack.images.errors import ImageError, Unavailable
from hack.images.machine import missing

__all__ = ["ImageError", "Unavailable", "build", "image", "missing", "names"]
