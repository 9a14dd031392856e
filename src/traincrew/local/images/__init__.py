"""Images of the embedded cluster.

Pods are processes here. An image name stands for an *environment*: a Python environment built from
a list of requirements (or an existing one), files that are mounted at their paths in the image,
variables, and a default command. Catalogs map names to environments; "pulling" an image builds its
environment once, into a cache. Or it stands for a container image, whose files are the root of its
containers (`oci`).
"""

from traincrew.local.images.environment import Environment, EnvironmentStatus, ImageRoot
from traincrew.local.images.errors import BuildError, CatalogError, ImagePullError
from traincrew.local.images.installation.uv import Measurement, Notice
from traincrew.local.images.mapping import default_catalog, user_catalogs
from traincrew.local.images.oci.accounts import Accounts, UnknownUserError, is_number
from traincrew.local.images.oci.owners import owned_root
from traincrew.local.images.pulls import PullRequest
from traincrew.local.images.sources import Source
from traincrew.local.images.store import ImageStore

__all__ = [
    "Accounts",
    "BuildError",
    "CatalogError",
    "Environment",
    "EnvironmentStatus",
    "ImagePullError",
    "ImageRoot",
    "ImageStore",
    "Measurement",
    "Notice",
    "PullRequest",
    "Source",
    "UnknownUserError",
    "default_catalog",
    "is_number",
    "owned_root",
    "user_catalogs",
]
