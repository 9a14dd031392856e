"""Values of a pod's own fields and resources: `fieldRef` and `resourceFieldRef`. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from traincrew.local.quantity import parse

__all__ = ["FieldError", "PodFacts", "all_containers", "field_value", "resource_value"]

Document = Mapping[str, Any]

_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class FieldError(Exception):
    """A field or resource reference of a pod is invalid or unsupported."""


class PodFacts:
    """A pod, with what only its node knows about it.

    Args:
        pod: the object.
        pod_ip: the pod's address.
        host_ip: the node's address.
        allocatable: of the node, by resource: the limit of containers that set none.
    """

    def __init__(
        self, pod: Document, *, pod_ip: str, host_ip: str, allocatable: Mapping[str, str]
    ) -> None:
        self.pod = pod
        self.pod_ip = pod_ip
        self.host_ip = host_ip
        self.allocatable = allocatable

    @property
    def metadata(self) -> Document:
        """The pod's `metadata`."""
        metadata: Document = self.pod.get("metadata") or {}
        return metadata

    @property
    def spec(self) -> Document:
        """The pod's `spec`."""
        spec: Document = self.pod.get("spec") or {}
        return spec

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return str(self.metadata.get("namespace", ""))


def all_containers(spec: Document) -> list[Document]:
    """Return the init containers, then the containers."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def field_value(facts: PodFacts, path: str) -> str:
    """Return the value of a `fieldRef.fieldPath`.

    Raises:
        FieldError: The path is not one of those Kubernetes documents.
    """
    if match := _KEYED.fullmatch(path):
        values: Mapping[str, str] = facts.metadata.get(match[1]) or {}
        return values.get(match[2], "")
    if path in {"metadata.labels", "metadata.annotations"}:
        values = facts.metadata.get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted(values.items()))
    simple = {
        "metadata.name": facts.metadata.get("name"),
        "metadata.namespace": facts.metadata.get("namespace"),
        "metadata.uid": facts.metadata.get("uid"),
        "spec.nodeName": facts.spec.get("nodeName"),
        "spec.serviceAccountName": facts.spec.get("serviceAccountName"),
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
    }
    if path not in simple:
        raise FieldError(f"unsupported fieldPath: {path}")
    return str(simple[path] or "")


def _escape(value: str) -> str:
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        value = value.replace(character, escaped)
    return value


def resource_value(facts: PodFacts, reference: Document, container: Document | None) -> str:
    """Return the value of a `resourceFieldRef`: a whole number of divisors, rounded up.

    Args:
        facts: The pod.
        reference: `resource`, and optionally `containerName` and `divisor`.
        container: The container itself, for references that name none.

    Raises:
        FieldError: There is no such container or resource.
    """
    name = reference.get("containerName")
    if name:
        container = next(
            (each for each in all_containers(facts.spec) if each.get("name") == name), None
        )
    if container is None:
        raise FieldError(f"container {name} not found")
    kind, _, resource = str(reference.get("resource", "")).partition(".")
    if kind not in {"limits", "requests"} or not resource:
        raise FieldError(f"unsupported container resource: {reference.get('resource')}")
    amounts = (container.get("resources") or {}).get(kind) or {}
    amount = amounts.get(resource)
    if amount is None:
        amount = facts.allocatable.get(resource, "0") if kind == "limits" else "0"
    try:
        divisor = parse(reference.get("divisor") or "1") or 1
        return str(math.ceil(parse(amount) / divisor))
    except ValueError as error:
        raise FieldError(str(error)) from error
