"""The ConfigMaps and Secrets that a pod refers to, and their values. Pure."""

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
    """An object or key that a pod refers to does not exist; the message is the kubelet's."""


class Sources:
    """Fetched ConfigMaps and Secrets of one namespace."""

    def __init__(
        self, namespace: str, objects: Mapping[Reference, Mapping[str, Any] | None]
    ) -> None:
        self.namespace = namespace
        self._objects = objects

    def is_missing(self, reference: Reference) -> bool:
        """Return whether an object was fetched and does not exist."""
        return reference in self._objects and self._objects[reference] is None

    def values(self, reference: Reference, *, optional: bool) -> dict[str, bytes] | None:
        """Return all values of a ConfigMap or Secret; None if it is missing and optional.

        Raises:
            MissingReferenceError: It is missing and not optional.
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
        """Return one value of a ConfigMap or Secret; None if it is missing and optional.

        Raises:
            MissingReferenceError: It is missing and not optional.
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
    """Yield the objects that the environment of a container refers to."""
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
    """Yield the objects that a volume refers to."""
    if config_map := volume.get("configMap"):
        yield Reference("ConfigMap", config_map.get("name", ""))
    if secret := volume.get("secret"):
        yield Reference("Secret", secret.get("secretName", ""))
    for source in (volume.get("projected") or {}).get("sources") or ():
        for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
            if source.get(field):
                yield Reference(kind, source[field].get("name", ""))
