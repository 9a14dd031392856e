"""Ephemeral containers of a pod, which a subresource adds to a running pod.

Rules: ``validateEphemeralContainers`` and ``ValidatePodEphemeralContainersUpdate`` in
``pkg/apis/core/validation/validation.go``, and ``podEphemeralContainersStrategy`` in
``pkg/registry/core/pod/strategy.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema.unversioned import difference
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Collection

    from traincrew.local.apiserver.kinds.strategy import WriteContext
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["EPHEMERAL", "accepted_ephemeral", "ephemeral_part", "ephemeral_rules"]

EPHEMERAL = "ephemeralcontainers"
"""The subresource of pods that adds ephemeral containers."""

_KEY = "ephemeralContainers"
_NOT_ALLOWED = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_DETAIL = "cannot be set for an Ephemeral Container"
# Metadata that writes of the subresource may not change.
_KEPT = ("labels", "annotations", "finalizers", "ownerReferences")


def ephemeral_rules(
    found: list[Cause], container: Document, others: Collection[str], path: str
) -> None:
    """Validate what applies to ephemeral containers only, beyond the rules for every container.

    Args:
        found: extended in place.
        container: the ephemeral container.
        others: names of the pod's containers and init containers.
        path: of the container.
    """
    target = container.get("targetContainerName")
    if target and target not in others:
        found.append(why.not_found(f"{path}.targetContainerName", target))
    found.extend(
        why.forbidden(f"{path}.{key}", _DETAIL) for key in _NOT_ALLOWED if container.get(key)
    )
    for index, mount in enumerate(items(container, "volumeMounts")):
        found.extend(
            why.forbidden(f"{path}.volumeMounts[{index}].{key}", _DETAIL)
            for key in ("subPath", "subPathExpr")
            if mount.get(key)
        )


def ephemeral_part(_context: WriteContext, new: Document, old: Document) -> Document:
    """Return the old pod with the ephemeral containers of the new one.

    Args:
        _context: of the write.
        new: the new state; its metadata is changed in place.
        old: the stored state.
    """
    result: Document = clone(old)
    result["metadata"] = metadata = new["metadata"]
    for key in _KEPT:
        if key in old["metadata"]:
            metadata[key] = clone(old["metadata"][key])
        else:
            metadata.pop(key, None)
    return _with_containers(result, new)


def accepted_ephemeral(new: Document, old: Document) -> Document:
    """Check that a write only adds ephemeral containers.

    Returns:
        The old pod with the new ephemeral containers, to check that nothing else changes.

    Raises:
        StatusError: 422 when an existing one is changed or missing.
    """
    wanted = {each.get("name"): each for each in items(new, "spec", _KEY)}
    found = []
    for container in items(old, "spec", _KEY):
        name = why.quote(container.get("name", ""))
        kept = wanted.get(container.get("name"))
        if kept is None:
            detail = f"existing ephemeral containers {name} may not be removed\n"
            found.append(why.forbidden(f"spec.{_KEY}", detail))
        elif kept != container:
            detail = f"existing ephemeral containers {name} may not be changed\n"
            detail += difference("core.EphemeralContainer", container, kept)
            found.append(why.forbidden(f"spec.{_KEY}", detail))
    if found:
        raise invalid("", "Pod", new["metadata"]["name"], found)
    return _with_containers(clone(old), new)


def _with_containers(pod: Document, source: Document) -> Document:
    """Give a pod the ephemeral containers of another one, in place."""
    containers = field(source, "spec").get(_KEY)
    if containers:
        pod["spec"][_KEY] = clone(containers)
    else:
        pod["spec"].pop(_KEY, None)
    return pod
