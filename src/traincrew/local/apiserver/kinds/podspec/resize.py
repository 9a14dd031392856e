"""Resources of a running pod, which the subresource ``resize`` changes.

Rules: ``ValidatePodResize`` and ``validateResizePolicy`` in ``pkg/apis/core/validation`` and
``podResizeStrategy`` in ``pkg/registry/core/pod/strategy.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.errors import invalid

from .quality import qos_class

if TYPE_CHECKING:
    from traincrew.local.apiserver.kinds.strategy import WriteContext
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["accepted_resize", "resize_part", "resize_policy"]

_KINDS = ("containers", "initContainers")
_CHANGED = ("resources", "resizePolicy")
_RESIZABLE = ("cpu", "memory")
_POLICIES = ("NotRequired", "RestartContainer")
_ONLY = "only cpu and memory resources are mutable"


def resize_policy(found: list[Cause], container: Document, path: str, restart_policy: str) -> None:
    """Validate what a resize of a container means for its program."""
    seen: set[str] = set()
    for index, policy in enumerate(items(container, "resizePolicy")):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            found.append(why.duplicate(f"{path}[{index}]", name))
        seen.add(name)
        for value, supported in ((name, _RESIZABLE), (restart, _POLICIES)):
            if not value:
                found.append(why.required(path))
            elif value not in supported:
                found.append(why.not_supported(path, value, supported))
        if restart_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            found.append(why.invalid(path, restart, detail))


def resize_part(_context: WriteContext, new: Document, old: Document) -> Document:
    """Return the old pod with the resources of the new one.

    Containers that were added, removed or renamed are left to `accepted_resize` to refuse.
    """
    result: Document = clone(old)
    metadata = result["metadata"]
    for key in ("managedFields", "resourceVersion"):
        if key in new["metadata"]:
            metadata[key] = new["metadata"][key]
    spec = result["spec"]
    _take(spec, field(new, "spec"), ("resources",))
    for kind in _KINDS:
        wanted = list(items(new, "spec", kind))
        if _names(wanted) != _names(list(items(spec, kind))):
            spec[kind] = wanted
            continue
        for container, source in zip(items(spec, kind), wanted, strict=True):
            _take(container, source, _CHANGED)
    return result


def _take(target: Document, source: Document, keys: tuple[str, ...]) -> None:
    for key in keys:
        if key in source:
            target[key] = clone(source[key])
        else:
            target.pop(key, None)


def _names(containers: list[Document]) -> list[Any]:
    return [container.get("name") for container in containers]


def accepted_resize(new: Document, old: Document) -> Document:
    """Check that a write only changes cpu and memory.

    Returns:
        The old pod with the new specification, which other rules see as unchanged.

    Raises:
        StatusError: 422 naming what may not be changed.
    """
    found: list[Cause] = []
    spec, before = field(new, "spec"), field(old, "spec")
    if qos_class(before) != qos_class(spec):
        shown = field(new, "status").get("qosClass", "")
        detail = "Pod QOS Class may not change as a result of resizing"
        found.append(why.invalid("spec", shown, detail))
    running = [
        each
        for each in items(old, "status", "containerStatuses")
        if field(each, "state", "running")
    ]
    if running and "resources" not in running[0]:
        found.append(why.forbidden("spec", "Pod running on node without support for resize"))
    _check_pod_level(found, spec, before)
    if _same_containers(found, spec, before):
        for kind in _KINDS:
            _check_containers(found, spec, before, kind)
    if found:
        raise invalid("", "Pod", new["metadata"]["name"], found)
    return {**old, "spec": new["spec"]}


def _check_pod_level(found: list[Cause], spec: Document, before: Document) -> None:
    wanted, known = spec.get("resources"), before.get("resources")
    if wanted == known:
        return
    if known is not None and wanted is None:
        detail = "pod-level resources cannot be removed"
        found.append(why.forbidden("spec.resources", detail))
        return
    _check_removed(found, wanted or {}, known or {}, "spec.resources", "pod-level resource")
    if _rest(wanted or {}) != _rest(known or {}):
        found.append(why.forbidden("spec", f"{_ONLY} at pod-level"))


def _same_containers(found: list[Cause], spec: Document, before: Document) -> bool:
    same = True
    for kind in _KINDS:
        names, known = (_names(list(items(each, kind))) for each in (spec, before))
        if len(names) != len(known):
            detail = f"{kind} may not be added or removed on resize"
            found.append(why.forbidden(f"spec.{kind}", detail))
            same = False
            continue
        for index, (name, was) in enumerate(zip(names, known, strict=True)):
            if name != was:
                detail = f"{kind} may not be renamed or reordered on resize"
                found.append(why.forbidden(f"spec.{kind}[{index}].name", detail))
                same = False
    return same


def _check_containers(found: list[Cause], spec: Document, before: Document, kind: str) -> None:
    for index, (container, was) in enumerate(
        zip(items(spec, kind), items(before, kind), strict=True)
    ):
        path = f"spec.{kind}[{index}]"
        wanted, known = field(container, "resources"), field(was, "resources")
        _check_removed(found, wanted, known, f"{path}.resources", "resource")
        if kind == "containers":
            if _rest(wanted) != _rest(known) or container.get("resizePolicy") != was.get(
                "resizePolicy"
            ):
                found.append(why.forbidden("spec", _ONLY))
            continue
        if _rest(wanted) != _rest(known):
            detail = "only cpu and memory resources for init or sidecar containers are mutable"
            found.append(why.forbidden(path, detail))
        restarts = any(
            policy.get("restartPolicy") == "RestartContainer"
            for policy in items(container, "resizePolicy")
        )
        if wanted != known and restarts and container.get("restartPolicy") != "Always":
            detail = (
                "non-sidecar init containers with a resize policy of RestartContainer cannot be "
                "resized"
            )
            found.append(why.forbidden(path, detail))


def _check_removed(
    found: list[Cause], wanted: Document, known: Document, path: str, word: str
) -> None:
    found.extend(
        why.forbidden(f"{path}.{key}", f"{word} {key} cannot be removed")
        for key in ("requests", "limits")
        if not field(known, key).keys() <= field(wanted, key).keys()
    )


def _rest(resources: Document) -> Document:
    """Return what a resize may not change."""
    result = {
        key: {name: amount for name, amount in value.items() if name not in _RESIZABLE}
        if key in {"requests", "limits"} and type(value) is dict
        else value
        for key, value in resources.items()
    }
    return {key: value for key, value in result.items() if value}
