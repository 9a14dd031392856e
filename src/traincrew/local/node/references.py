"""The ConfigMaps and Secrets a pod refers to: what to fetch, and what is there. Pure."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["MissingReferenceError", "Reference", "Sources", "env_references", "volume_references"]


class Reference(NamedTuple):
    """A ConfigMap or Secret of the pod's namespace."""

    kind: str
    name: str


class MissingReferenceError(Exception):
    """Something a pod refers to is not there; the message is in the kubelet's words."""


class Sources:
    """The fetched objects of one namespace."""

    def __init__(
        self, namespace: str, objects: Mapping[Reference, Mapping[str, Any] | None]
    ) -> None:
        self.namespace = namespace
        self._objects = objects

    def lack(self, reference: Reference) -> bool:
        """Whether something was looked for and is not there."""
        return reference in self._objects and self._objects[reference] is None

    def values(self, reference: Reference, *, optional: bool) -> dict[str, bytes] | None:
        """Everything in a ConfigMap or Secret; None if it is missing and may be.

        Raises:
            MissingReferenceError: It is missing and must not be.
        """
        found = self._objects.get(reference)
        if found is None:
            if optional:
                return None
            raise MissingReferenceError(f'{reference.kind.lower()} "{reference.name}" not found')
        data: Mapping[str, str] = found.get("data") or {}
        if reference.kind == "Secret":
            return {key: _decoded(value) for key, value in data.items()}
        values = {key: value.encode() for key, value in data.items()}
        binary: Mapping[str, str] = found.get("binaryData") or {}
        return values | {key: _decoded(value) for key, value in binary.items()}

    def value(self, reference: Reference, key: str, *, optional: bool) -> bytes | None:
        """One value of a ConfigMap or Secret; None if it is missing and may be.

        Raises:
            MissingReferenceError: It is missing and must not be.
        """
        values = self.values(reference, optional=optional)
        if values is None:
            return None
        if key not in values:
            if optional:
                return None
            raise MissingReferenceError(
                f"couldn't find key {key} in {reference.kind} {self.namespace}/{reference.name}"
            )
        return values[key]


def _decoded(value: str) -> bytes:
    try:
        return b64decode(value)
    except Base64Error:
        return b""


def env_references(container: Mapping[str, Any]) -> Iterator[Reference]:
    """What the environment of a container refers to."""
    for source in container.get("envFrom") or ():
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if source.get(field):
                yield Reference(kind, source[field].get("name", ""))
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            if origin.get(field):
                yield Reference(kind, origin[field].get("name", ""))


def volume_references(volume: Mapping[str, Any]) -> Iterator[Reference]:
    """What a volume refers to."""
    if config_map := volume.get("configMap"):
        yield Reference("ConfigMap", config_map.get("name", ""))
    if secret := volume.get("secret"):
        yield Reference("Secret", secret.get("secretName", ""))
    for source in (volume.get("projected") or {}).get("sources") or ():
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if source.get(field):
                yield Reference(kind, source[field].get("name", ""))
