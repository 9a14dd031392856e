"""Images of registries, by the OCI distribution specification 1.1.

A registry, and whatever answers in its place, is a stranger: answers are bounded, bytes are checked
by their digests, and credentials go to nobody but the registry they were stored for.
"""

from traincrew.local.images.oci.registry.credentials import Keyring, PullSecret
from traincrew.local.images.oci.registry.docker_config import user_keyring
from traincrew.local.images.oci.registry.progress import Progress, Transfer
from traincrew.local.images.oci.registry.pull import pull, resolve
from traincrew.local.images.oci.registry.settings import (
    RegistrySettings,
    default_settings_file,
    load_settings,
)

__all__ = [
    "Keyring",
    "Progress",
    "PullSecret",
    "RegistrySettings",
    "Transfer",
    "default_settings_file",
    "load_settings",
    "pull",
    "resolve",
    "user_keyring",
]
