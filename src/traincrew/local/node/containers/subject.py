"""The container that is being prepared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images import Environment
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.containers.imagevolumes import ImageVolume
    from traincrew.local.node.context import Context
    from traincrew.local.node.fields.downward import PodFacts
    from traincrew.local.node.machine.cdi import Edits
    from traincrew.local.node.runtime.instances import Instance

__all__ = ["Subject"]

Document = Mapping[str, Any]


class Subject(NamedTuple):
    """The container to prepare.

    Attributes:
        pod: with prepared volumes.
        facts: the pod as it is now.
        container: of the pod's spec.
        image: the environment of its image.
        volumes: those of its volumes that are images.
        instance: its files are created here.
        devices: the GPUs it gets.
        edits: what its devices add to it.
    """

    pod: PodHandle
    facts: PodFacts
    container: Document
    image: Environment
    volumes: Mapping[str, ImageVolume]
    instance: Instance
    devices: list[int]
    edits: Edits

    @property
    def context(self) -> Context:
        """The node."""
        return self.pod.context

    @property
    def isolated(self) -> bool:
        """Whether it has namespaces of its own; otherwise it runs in bare mode."""
        return self.context.capabilities.namespaces

    @property
    def kubeconfig(self) -> Path:
        """Its kubeconfig, if it gets one."""
        return self.instance.directory / "kubeconfig"

    @property
    def kubectl(self) -> Path | None:
        """The kubectl that it gets; none in a container image, which has programs of its own."""
        return self.context.kubectl if self.image.root is None else None

    @property
    def security(self) -> Document:
        """Its `securityContext`."""
        security: Document = self.container.get("securityContext") or {}
        return security
