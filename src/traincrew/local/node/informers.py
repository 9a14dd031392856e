"""The informers of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.cache import Informer
from traincrew.engine.objects import MetadataOnly
from traincrew.engine.resources import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
)
from traincrew.local.node.records.views import BoundPod

if TYPE_CHECKING:
    from traincrew.engine.client import Client

__all__ = ["NodeInformers"]


class NodeInformers:
    """One informer per kind that the node watches."""

    def __init__(self, client: Client) -> None:
        self.pods = Informer(client, PODS, BoundPod)
        self.services = Informer(client, SERVICES)
        self.slices = Informer(client, ENDPOINT_SLICES)
        self.config_maps = Informer(client, CONFIG_MAPS, MetadataOnly, metadata_only=True)
        self.secrets = Informer(client, SECRETS, MetadataOnly, metadata_only=True)
        self.claims = Informer(client, PERSISTENT_VOLUME_CLAIMS)

    def all(self) -> list[Informer[Any]]:
        """Return all informers."""
        return [
            self.pods,
            self.services,
            self.slices,
            self.config_maps,
            self.secrets,
            self.claims,
        ]
