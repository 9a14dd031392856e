"""Rules for Jobs, and for the templates of Jobs in CronJobs (``pkg/apis/batch/validation``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.podspec.pod import pod_template
from traincrew.local.apiserver.kinds.shared.fields import immutable, non_negative
from traincrew.local.apiserver.kinds.shared.meta import (
    MISMATCH,
    label_selector,
    selects,
    template_labels,
)
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_fault

from .jobpolicies import failure_policy, success_policy

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["job", "spec_rules"]


_MAX_INDEXED_PARALLELISM = 100_000

_HIGH_COMPLETIONS = 100_000

_HIGH_PARALLELISM = 10_000


def job(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a Job."""
    spec = field(obj, "spec")
    selector = spec.get("selector")
    if spec.get("manualSelector") is not True and selector is not None:
        _generated_selector(found, obj, spec)
    spec_rules(found, spec, "spec")
    if selector is None:
        found.append(why.required("spec.selector"))
    else:
        label_selector(found, selector, "spec.selector")
    if selector is None or not selects(selector, template_labels(spec)):
        here = "spec.template.metadata.labels"
        found.append(why.invalid(here, field(spec, "template", "metadata").get("labels"), MISMATCH))
    completions = spec.get("completions")
    name = obj["metadata"].get("name", "")
    if spec.get("completionMode") == "Indexed" and completions:
        longest = f"{name}-{completions - 1}"
        if label_fault(longest):
            detail = f"will not able to create pod with invalid DNS label: {longest}"
            found.append(why.invalid("metadata.name", name, detail))
    if old is not None:
        _job_update(found, spec, old)


def _generated_selector(found: list[Cause], obj: Document, spec: Document) -> None:
    """Check that the generated labels and selector of a Job are those the server generates."""
    metadata = obj["metadata"]
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    expected = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    here = "spec.template.metadata.labels"
    actual = template_labels(spec)
    for key, value in expected.items():
        if key not in actual:
            found.append(why.required(f"{here}[{key}]", f"must be '{value}'"))
        elif actual[key] != value:
            found.append(why.invalid(f"{here}[{key}]", actual, f"must be '{value}'"))
    if not selects(spec["selector"], expected):
        detail = "`selector` not auto-generated"
        found.append(why.invalid("spec.selector", spec["selector"], detail))


def spec_rules(found: list[Cause], spec: Document, path: str) -> None:
    """Validate the spec of a Job, also in the template of a CronJob."""
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        non_negative(found, f"{path}.{key}", spec.get(key))
    per_index, max_failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if max_failed is not None and per_index is None:
        detail = "when maxFailedIndexes is specified"
        found.append(why.required(f"{path}.backoffLimitPerIndex", detail))
    manager = spec.get("managedBy")
    if manager is not None:
        domain, _, rest = manager.partition("/")
        if not domain or not rest:
            detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
            found.append(why.invalid(f"{path}.managedBy", manager, detail))
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "Indexed":
        _indexed_job(found, spec, path)
    elif mode == "NonIndexed":
        for key, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", max_failed)):
            if value is not None:
                detail = "requires indexed completion mode"
                found.append(why.invalid(f"{path}.{key}", value, detail))
    else:
        supported = ("NonIndexed", "Indexed")
        found.append(why.not_supported(f"{path}.completionMode", mode, supported))
    if "podFailurePolicy" in spec:
        failure_policy(found, spec, f"{path}.podFailurePolicy")
    if "successPolicy" in spec:
        success_policy(found, spec, mode, f"{path}.successPolicy")
    replacement = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    if replacement is not None and replacement not in allowed:
        found.append(why.not_supported(f"{path}.podReplacementPolicy", replacement, allowed))
    pod_template(found, field(spec, "template"), f"{path}.template")
    _job_restart_policy(found, spec, f"{path}.template.spec.restartPolicy")


def _job_restart_policy(found: list[Cause], spec: Document, path: str) -> None:
    policy = field(spec, "template", "spec").get("restartPolicy", "")
    if policy in ("", "Always"):
        found.append(why.required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        found.append(why.not_supported(path, policy, ("OnFailure", "Never")))
    elif "podFailurePolicy" in spec and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        found.append(why.invalid(path, policy, detail))


def _indexed_job(found: list[Cause], spec: Document, path: str) -> None:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    max_failed, per_index = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if completions is None:
        found.append(why.required(f"{path}.completions", "when completion mode is Indexed"))
    if parallelism is not None and parallelism > _MAX_INDEXED_PARALLELISM:
        detail = (
            f"must be less than or equal to {_MAX_INDEXED_PARALLELISM} when completion mode is"
            " Indexed"
        )
        found.append(why.invalid(f"{path}.parallelism", parallelism, detail))
    if completions is None:
        return
    here = f"{path}.maxFailedIndexes"
    if max_failed is not None and max_failed > completions:
        detail = "must be less than or equal to completions"
        found.append(why.invalid(here, max_failed, detail))
    if completions > _HIGH_COMPLETIONS and per_index is not None:
        if max_failed is None:
            detail = f"must be specified when completions is above {_HIGH_COMPLETIONS}"
            found.append(why.required(here, detail))
        detail = (
            f"must be less than or equal to {_HIGH_PARALLELISM} when completions are above"
            f" {_HIGH_COMPLETIONS} and used with backoff limit per index"
        )
        for key, value in (("parallelism", parallelism), ("maxFailedIndexes", max_failed)):
            if value is not None and value > _HIGH_PARALLELISM:
                found.append(why.invalid(f"{path}.{key}", value, detail))


def _job_update(found: list[Cause], spec: Document, stored: Document) -> None:
    old = field(stored, "spec")
    completions, before = spec.get("completions"), old.get("completions")
    if spec.get("completionMode") != "Indexed":
        immutable(found, "spec.completions", completions, before)
    elif completions is not None and completions not in (before, spec.get("parallelism")):
        detail = "can only be modified in tandem with spec.parallelism"
        found.append(why.invalid("spec.completions", completions, detail))
    selectors = spec.get("selector"), old.get("selector")
    immutable(found, "spec.selector", *selectors, "*metav1.LabelSelector")
    template, was = field(spec, "template"), field(old, "template")
    if template != was:
        # The scheduling directives (KEP-2926) and resources (KEP-5440) of a suspended Job are
        # mutable.
        if _is_fully_suspended(stored):
            new = field(template, "spec")
            kept = _with_new_placement(template, was).get("spec", {})
            _copy_resources(kept, new)
            immutable(found, "spec.template.spec", new, kept, "core.PodSpec")
        else:
            immutable(found, "spec.template", template, was, "core.PodTemplateSpec")
    for key, go_type in _FIXED.items():
        immutable(found, f"spec.{key}", spec.get(key), old.get(key), go_type)


_FIXED = {
    "completionMode": "",
    "podFailurePolicy": "*batch.PodFailurePolicy",
    "backoffLimitPerIndex": "",
    "managedBy": "",
    "successPolicy": "*batch.SuccessPolicy",
}
"""Immutable fields, with upstream's Go type where it is a struct."""


def _is_fully_suspended(job: Document) -> bool:
    """Return whether a Job is suspended and none of its pods is left."""
    status = field(job, "status")
    if not field(job, "spec").get("suspend") or status.get("active"):
        return False
    return "startTime" not in status or any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in items(status, "conditions")
    )


def _copy_resources(old: Document, new: Document) -> None:
    """Set the resources of the old containers to those of the new ones, in place."""
    for key in ("containers", "initContainers"):
        pairs = list(items(old, key)), list(items(new, key))
        if len(pairs[0]) != len(pairs[1]):
            continue
        for container, successor in zip(*pairs, strict=True):
            if container.get("name") == successor.get("name"):
                _copy_field(container, successor, "resources")


def _copy_field(target: Document, source: Document, key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def _with_new_placement(new: Document, old: Document) -> Document:
    """Return the old template with the new one's scheduling directives and metadata."""
    result: Document = clone(old)
    for part, keys in (
        ("metadata", ("annotations", "labels")),
        ("spec", ("nodeSelector", "tolerations", "schedulingGates")),
    ):
        target, source = result.setdefault(part, {}), field(new, part)
        for key in keys:
            _copy_field(target, source, key)
    # Of the affinity, only the node affinity.
    wanted, spec = field(new, "spec", "affinity"), result["spec"]
    affinity: Document = dict(field(spec, "affinity"))
    _copy_field(affinity, wanted, "nodeAffinity")
    if affinity or "affinity" in field(new, "spec"):
        spec["affinity"] = affinity
    else:
        spec.pop("affinity", None)
    return result
