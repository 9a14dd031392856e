"""What must not change between the starts of a cluster."""

from __future__ import annotations

import os
import secrets
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Identity"]


class Identity(msgspec.Struct, omit_defaults=True):
    """State that must not change between starts, since kubeconfigs of users and pods contain it."""

    service_network: str
    token: str
    port: int = 0

    @classmethod
    def load(cls, directory: Path) -> Identity:
        """Read it from a state directory; a new one is stored there.

        Raises:
            OSError: The directory cannot be read or written.
            msgspec.DecodeError: The file is none of ours.
        """
        try:
            identity = msgspec.json.decode((directory / "identity.json").read_bytes(), type=cls)
        except FileNotFoundError:
            # Clusters on one machine share the loopback interface: each gets one of 1,008 networks
            # of 127.64.0.0/10, so that their Services do not collide. The first 16 are left to API
            # servers that are no part of a cluster (`DEFAULT_RANGE`).
            base = IPv4Network("127.64.0.0/10")
            network = base.network_address + 4096 * (16 + secrets.randbelow(1008))
            identity = cls(service_network=f"{network}/20", token=secrets.token_urlsafe(32))
            identity.save(directory)
        return identity

    def save(self, directory: Path) -> None:
        """Store it in a state directory.

        Raises:
            OSError: The directory cannot be written.
        """
        path = directory / "identity.json"
        temporary = path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(self))
        temporary.replace(path)
