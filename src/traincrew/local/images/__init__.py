"""Images of the embedded cluster.

Pods are processes here, so an image is not a file system but an *environment*: a Python
environment built from a list of requirements (or an existing one), files that are mounted at their
paths in the image, variables, and a default command. Catalogs map names to environments; "pulling"
an image builds its environment once, into a cache.
"""

from traincrew.local.images.environment import Environment, EnvironmentStatus
from traincrew.local.images.errors import BuildError, CatalogError, ImagePullError
from traincrew.local.images.mapping import default_catalog, user_catalogs
from traincrew.local.images.store import ImageStore
from traincrew.local.images.uv import Measurement, Notice

__all__ = [
    "BuildError",
    "CatalogError",
    "Environment",
    "EnvironmentStatus",
    "ImagePullError",
    "ImageStore",
    "Measurement",
    "Notice",
    "default_catalog",
    "user_catalogs",
]
