"""The state of pods, and pods created from templates. All pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.controllers.common import find_condition, has_condition, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traincrew.engine.objects import AnyObject

MAX_GENERATED_BASE = 58
"""Characters of `generateName` that the server keeps: 63 less its five random ones."""


def phase(pod: AnyObject) -> str:
    """Return `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`."""
    return str(pod.status.get("phase") or "Pending")


def is_finished(pod: AnyObject) -> bool:
    """Return whether every container has terminated for good."""
    return phase(pod) in {"Succeeded", "Failed"}


def is_terminating(pod: AnyObject) -> bool:
    """Return whether it is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: AnyObject) -> bool:
    """Return whether it is neither finished nor terminating (upstream `IsPodActive`)."""
    return not is_finished(pod) and not is_terminating(pod)


def is_ready(pod: AnyObject) -> bool:
    """Return whether its condition Ready is True."""
    return has_condition(pod.status.get("conditions"), "Ready")


def ready_since(pod: AnyObject) -> float | None:
    """Return since when it is ready, in seconds since the epoch, or None if it is not."""
    condition = find_condition(pod.status.get("conditions"), "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    text = condition.get("lastTransitionTime")
    return parse_time(text) if text else 0.0


def is_available(pod: AnyObject, min_ready_seconds: int, now: float) -> bool:
    """Return whether it has been ready for at least this many seconds."""
    since = ready_since(pod)
    return since is not None and (min_ready_seconds <= 0 or since + min_ready_seconds <= now)


def container_statuses(pod: AnyObject) -> list[dict[str, Any]]:
    """Return the statuses of containers, then of init containers."""
    return [
        *(pod.status.get("containerStatuses") or ()),
        *(pod.status.get("initContainerStatuses") or ()),
    ]


def restarts(pod: AnyObject) -> int:
    """Return the total number of restarts of its containers."""
    return sum(int(status.get("restartCount") or 0) for status in container_statuses(pod))


def finished_at(pod: AnyObject) -> float | None:
    """Return when the last of its containers terminated, in seconds since the epoch.

    None if the status does not contain it (the pod was deleted before it ran, for instance).
    """
    times = []
    for status in pod.status.get("containerStatuses") or ():
        terminated = (status.get("state") or {}).get("terminated")
        if not terminated or not terminated.get("finishedAt"):
            return deletion_time(pod)
        times.append(parse_time(terminated["finishedAt"]))
    return max(times) if times else deletion_time(pod)


def deletion_time(pod: AnyObject) -> float | None:
    """Return when its deletion was requested: the timestamp less the grace period."""
    text = pod.metadata.deletion_timestamp
    if text is None:
        return None
    return parse_time(text) - (pod.metadata.deletion_grace_period_seconds or 0)


def removal_order(pod: AnyObject) -> tuple[bool, int, bool, float, int, float]:
    """Return the sort key for which pods to delete first (upstream `ActivePods`).

    Unassigned before assigned, pending before running, not ready before ready, ready for a short
    time before a long time, often restarted before rarely, young before old.
    """
    since = ready_since(pod)
    return (
        bool(pod.spec.get("nodeName")),
        {"Pending": 0, "Unknown": 1}.get(phase(pod), 2),
        since is not None,
        -(since or 0.0),
        -restarts(pod),
        -parse_time(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0.0,
    )


def from_template(
    template: Mapping[str, Any],
    *,
    namespace: str,
    owner: Mapping[str, Any],
    name: str = "",
    generate_name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    finalizers: Sequence[str] = (),
    spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a Pod to create.

    Args:
        template: `PodTemplateSpec`; not changed.
        namespace: The owner's namespace.
        owner: Its controller reference.
        name: Exact name, or empty for `generate_name`.
        generate_name: Prefix that the server completes.
        labels: Added to the template's; they take precedence.
        annotations: Added to the template's; they take precedence.
        finalizers: Added to the template's.
        spec: Top-level fields of the pod spec that replace the template's.
    """
    meta = template.get("metadata") or {}
    metadata: dict[str, Any] = {"namespace": namespace, "ownerReferences": [dict(owner)]}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = generate_name
    for key, added in (("labels", labels), ("annotations", annotations)):
        merged = {**(meta.get(key) or {}), **(added or {})}
        if merged:
            metadata[key] = merged
    kept = list(meta.get("finalizers") or ())
    kept += [finalizer for finalizer in finalizers if finalizer not in kept]
    if kept:
        metadata["finalizers"] = kept
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**(template.get("spec") or {}), **(spec or {})},
    }


def generated_base(name: str, suffix: str = "-") -> str:
    """Return `name` + `suffix`, with the name cut so that the server's random suffix fits."""
    return name[: MAX_GENERATED_BASE - len(suffix)] + suffix


def with_environment(
    containers: Iterable[Mapping[str, Any]] | None, variable: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the containers with one more variable, except where they define it themselves."""
    result = []
    for container in containers or ():
        environment = list(container.get("env") or ())
        if all(entry.get("name") != variable["name"] for entry in environment):
            environment.append(dict(variable))
        result.append({**container, "env": environment})
    return result
