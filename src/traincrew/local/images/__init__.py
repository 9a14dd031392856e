"""Images of the embedded cluster.

Pods are processes here, so an image is not a file system but an *environment*: a Python
environment made from a list of requirements (or one that is already there), files that appear at
the paths the image has them, variables, and a default command. Catalogs map names to environments;
"pulling" an image builds its environment once, into a cache.
"""

from traincrew.local.images.builder import BuildError
from traincrew.local.images.environment import Environment, EnvironmentStatus
from traincrew.local.images.errors import CatalogError, ImagePullError
from traincrew.local.images.store import ImageStore, default_catalog

__all__ = [
    "BuildError",
    "CatalogError",
    "Environment",
    "EnvironmentStatus",
    "ImagePullError",
    "ImageStore",
    "default_catalog",
]
