"""Patches of a runtime's templates, merged as `kubectl patch` merges them by default.

Lists of objects with a name are merged by it, other lists are replaced (Kubernetes' API: strategic
merge patch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traincrew.api.kinds.trainjob.types import TrainJobSpec

Document = dict[str, Any]

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}
"""The field that identifies the items of a list."""


def merged(original: Any, patch: Any, name: str = "") -> Any:
    """Return a value with a patch.

    Args:
        original: The value before.
        patch: The patch.
        name: Name of the field.
    """
    if isinstance(original, dict) and isinstance(patch, dict):
        found = dict(original)
        for key, value in patch.items():
            if value is None:
                found.pop(key, None)
            else:
                found[key] = merged(original.get(key), value, key)
        return found
    key = _KEYS.get(name)
    if key is not None and isinstance(original, list) and isinstance(patch, list):
        return _merged_list(original, patch, key)
    return patch


def _merged_list(original: list[Document], patch: list[Document], key: str) -> list[Document]:
    """Return a list with a patch, in the order that the API server gives it.

    Items of the patch are in its order, others in that of the list; where neither says which comes
    first, the patch does.
    """
    before = {each.get(key): each for each in original}
    places = {name: place for place, name in enumerate(before)}
    named = {each.get(key): merged(before.get(each.get(key)), each) for each in patch}
    left = [each for each in original if each.get(key) not in named]
    found: list[Document] = []
    for name, item in named.items():
        while name in places and left and places[left[0].get(key)] < places[name]:
            found.append(left.pop(0))
        found.append(item)
    return [*found, *left]


def apply(template: Document, spec: TrainJobSpec) -> Document:
    """Return the template of a JobSet with everything that a job changes of it.

    Args:
        template: Labels and annotations of the JobSet, and its ``spec``.
        spec: The job.
    """
    metadata = template["metadata"]
    jobs = {job["name"]: job for job in template["spec"].get("replicatedJobs") or []}
    for patch in spec.patches:
        metadata = merged(metadata, patch.template.get("metadata") or {})
        for each in patch.replicated_jobs:
            if each["name"] in jobs and each.get("template"):
                job = jobs[each["name"]]
                jobs[each["name"]] = {**job, "template": merged(job["template"], each["template"])}
    kept = {name: metadata.get(name) or {} for name in ("labels", "annotations")}
    return {"metadata": kept, "spec": {**template["spec"], "replicatedJobs": [*jobs.values()]}}
