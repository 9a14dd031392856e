"""Rules for Job and CronJob (``pkg/apis/batch/validation``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_fault, qualified_name_fault

from .containers import container_names
from .fields import immutable, non_negative
from .meta import MISMATCH, label_selector, selects, template_labels
from .pod import pod_template

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["cron_job", "job"]

_MAX_INDEXED_PARALLELISM = 100_000
_HIGH_COMPLETIONS = 100_000
_HIGH_PARALLELISM = 10_000
_INDEXES_LIMIT = 64 * 1024


def job(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a Job."""
    spec = field(obj, "spec")
    selector = spec.get("selector")
    if spec.get("manualSelector") is not True and selector is not None:
        _generated_selector(found, obj, spec)
    _job_spec(found, spec, "spec")
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


def _job_spec(found: list[Cause], spec: Document, path: str) -> None:
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
        _failure_policy(found, spec, f"{path}.podFailurePolicy")
    if "successPolicy" in spec:
        _success_policy(found, spec, mode, f"{path}.successPolicy")
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


_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def _failure_policy(found: list[Cause], spec: Document, path: str) -> None:
    rules = list(items(spec, "podFailurePolicy", "rules"))
    if len(rules) > 20:
        found.append(why.too_many(f"{path}.rules", len(rules), 20))
    names = container_names(field(spec, "template", "spec"))
    for index, rule in enumerate(rules):
        here = f"{path}.rules[{index}]"
        action = rule.get("action", "")
        if action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            detail = "requires the backoffLimitPerIndex to be set"
            found.append(why.invalid(f"{here}.action", action, detail))
        elif action and action not in _ACTIONS:
            found.append(why.not_supported(f"{here}.action", action, _ACTIONS))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is not None:
            _exit_codes(found, codes, names, f"{here}.onExitCodes")
        for position, pattern in enumerate(items(rule, "onPodConditions")):
            _condition_pattern(found, pattern, f"{here}.onPodConditions[{position}]")
        if codes is not None and conditions:
            detail = "specifying both OnExitCodes and OnPodConditions is not supported"
            found.append(Cause("FieldValueInvalid", f"Invalid value: {detail}", here))
        elif codes is None and not conditions:
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            found.append(Cause("FieldValueInvalid", f"Invalid value: {detail}", here))


def _condition_pattern(found: list[Cause], pattern: Document, path: str) -> None:
    fault = qualified_name_fault(pattern.get("type", ""))
    if fault:
        found.append(why.invalid(f"{path}.type", pattern.get("type", ""), fault))
    supported = ("False", "True", "Unknown")
    if pattern.get("status") not in supported:
        found.append(why.not_supported(f"{path}.status", pattern.get("status", ""), supported))


def _exit_codes(found: list[Cause], codes: Document, names: set[str], path: str) -> None:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if operator and operator not in ("In", "NotIn"):
        found.append(why.not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        found.append(why.invalid(f"{path}.containerName", name, detail))
    here = f"{path}.values"
    if not values:
        found.append(why.invalid(here, [], "at least one value is required"))
    elif len(values) > 255:
        found.append(why.too_many(here, len(values), 255))
    if len(set(values)) != len(values):
        places: dict[int, int] = {}
        first = next(at for at, value in enumerate(values) if places.setdefault(value, at) != at)
        found.append(why.duplicate(f"{here}[{first}]", values[first]))
    elif values != sorted(values):
        found.append(why.invalid(here, values, "must be ordered"))
    if operator == "In" and 0 in values:
        detail = "must not be 0 for the In operator"
        found.append(why.invalid(f"{here}[{values.index(0)}]", 0, detail))


def _success_policy(found: list[Cause], spec: Document, mode: str, path: str) -> None:
    if mode != "Indexed":
        detail = "requires indexed completion mode"
        found.append(why.invalid(path, spec["successPolicy"], detail))
        return
    rules = list(items(spec, "successPolicy", "rules"))
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        found.append(why.required(f"{path}.rules", detail))
    if len(rules) > 20:
        found.append(why.too_many(f"{path}.rules", len(rules), 20))
    for index, rule in enumerate(rules):
        here = f"{path}.rules[{index}]"
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            found.append(why.required(here, detail))
        non_negative(found, f"{here}.succeededCount", count)
        completions = spec.get("completions", 0)
        limits = [(completions, "specified completions")]
        if indexes is not None:
            place = f"{here}.succeededIndexes"
            if len(indexes) > _INDEXES_LIMIT:
                found.append(why.too_long(place, _INDEXES_LIMIT))
            total = 0
            try:
                total = _index_count(indexes, completions)
            except ValueError as error:
                detail = f"error parsing succeededIndexes: {error}"
                found.append(why.invalid(place, indexes, detail))
            limits.append((total, "indexes in the specified succeededIndexes field"))
        for limit, what in limits:
            if count is not None and count > limit:
                detail = f"must be less than or equal to {limit} (the number of {what})"
                found.append(why.invalid(f"{here}.succeededCount", count, detail))


def _index_count(text: str, completions: int) -> int:
    """Count the indexes in a list such as ``1,3-5,7``: ascending, below the completions.

    Raises:
        ValueError: the list is malformed; the message is the reason.
    """
    total, last = 0, -1
    for part in text.split(",") if text else ():
        bounds = part.split("-")
        if len(bounds) > 2:
            raise ValueError(
                f"the fragment {why.quote(part)} violates the requirement that an index interval"
                " can have at most two parts separated by '-'"
            )
        numbers = [_index(bound, completions) for bound in bounds]
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        if numbers[0] <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        total += numbers[-1] - numbers[0] + 1
        last = numbers[-1]
    return total


def _index(text: str, completions: int) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ValueError(f"cannot convert string to integer for index: {why.quote(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {why.quote(text)}")
    return int(text)


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


def cron_job(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a CronJob; no controller runs it here."""
    spec = field(obj, "spec")
    schedule = spec.get("schedule", "")
    if not schedule:
        found.append(why.required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        count = len(schedule.split())
        detail = f"expected exactly 5 fields, found {count}: [{' '.join(schedule.split())}]"
        found.append(why.invalid("spec.schedule", schedule, detail))
    key = "startingDeadlineSeconds"
    non_negative(found, f"spec.{key}", spec.get(key))
    supported = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in supported:
        value = spec.get("concurrencyPolicy", "")
        found.append(why.not_supported("spec.concurrencyPolicy", value, supported))
    _job_spec(found, field(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        non_negative(found, f"spec.{key}", spec.get(key))
