"""Rules for Job, CronJob, StatefulSet, Deployment, ReplicaSet, DaemonSet and their like.

Sources: ``pkg/apis/batch/validation``, ``pkg/apis/apps/validation``.
"""

from __future__ import annotations

import re
from typing import Any

from . import causes as why
from .causes import Cause
from .codec import clone
from .defaults_pod import field, items
from .names import label_fault, qualified_name_fault
from .validation_meta import (
    immutable,
    label_selector,
    labels,
    non_negative,
    selects,
)
from .validation_pod import container_names, pod_template

__all__ = [
    "controller_revision",
    "cron_job",
    "daemon_set",
    "deployment",
    "int_or_percent",
    "job",
    "replica_set",
    "replication_controller",
    "stateful_set",
    "template_object",
]

Document = dict[str, Any]

_MISMATCH = "`selector` does not match template `labels`"
_MAX_INDEXED_PARALLELISM = 100_000
_HIGH_COMPLETIONS = 100_000
_HIGH_PARALLELISM = 10_000


def int_or_percent(found: list[Cause], path: str, value: Any) -> None:
    """A number that is not negative, or a percentage up to 100."""
    if type(value) is int:
        non_negative(found, path, value)
    elif not re.fullmatch(r"[0-9]+%", value):
        detail = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',"
            "  or '93%', regex used for validation is '[0-9]+%')"
        )
        found.append(why.invalid(path, value, detail))


def at_most_everything(found: list[Cause], path: str, value: Any) -> None:
    """A percentage must not exceed 100."""
    if type(value) is str and re.fullmatch(r"[0-9]+%", value) and int(value[:-1]) > 100:
        found.append(why.invalid(path, value, "must not be greater than 100%"))


def _amount(value: Any) -> int:
    """A number or percentage as a plain number."""
    text = str(value).removesuffix("%")
    return int(text) if text.isdigit() else 0


def _template_labels(spec: Document) -> Document:
    return field(spec, "template", "metadata", "labels")


# --- jobs ---------------------------------------------------------------------------------------


def job(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a Job."""
    spec = field(obj, "spec")
    if spec.get("manualSelector") is not True and "selector" in spec:
        _generated_selector(found, obj, spec)
    _job_spec(found, spec, "spec")
    if "selector" not in spec:
        found.append(why.required("spec.selector"))
    else:
        label_selector(found, spec["selector"], "spec.selector")
        if not selects(spec["selector"], _template_labels(spec)):
            here = "spec.template.metadata.labels"
            found.append(why.invalid(here, _template_labels(spec), _MISMATCH))
    completions = spec.get("completions")
    name = obj["metadata"].get("name", "")
    if spec.get("completionMode") == "Indexed" and completions:
        longest = f"{name}-{completions - 1}"
        if label_fault(longest):
            detail = f"will not able to create pod with invalid DNS label: {longest}"
            found.append(why.invalid("metadata.name", name, detail))
    if old is not None:
        _job_update(found, spec, field(old, "spec"))


def _generated_selector(found: list[Cause], obj: Document, spec: Document) -> None:
    """Labels and selector the server writes into a Job must be those it would write."""
    metadata = obj["metadata"]
    uid, name = metadata.get("uid", ""), metadata.get("name", "")
    expected = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    here = "spec.template.metadata.labels"
    actual = _template_labels(spec)
    for key, value in expected.items():
        if key not in actual:
            found.append(why.required(f"{here}[{key}]", f"must be '{value}'"))
        elif actual[key] != value:
            found.append(why.invalid(f"{here}[{key}]", actual[key], f"must be '{value}'"))
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
        first = next(index for index, value in enumerate(values) if value in values[:index])
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
        if indexes is not None and not _is_index_list(indexes, completions):
            detail = f"error parsing succeededIndexes: {indexes!r} with {completions} completions"
            found.append(why.invalid(f"{here}.succeededIndexes", indexes, detail))
        if count is not None and count > completions:
            detail = (
                f"must be less than or equal to {completions} (the number of specified completions)"
            )
            found.append(why.invalid(f"{here}.succeededCount", count, detail))


def _is_index_list(text: str, completions: int) -> bool:
    """Whether a text is a list like ``1,3-5,7`` in rising order below the completions."""
    last = -1
    for part in text.split(","):
        if not re.fullmatch(r"\d+(-\d+)?", part):
            return False
        bounds = [int(bound) for bound in part.split("-")]
        if bounds[0] <= last or bounds[-1] >= completions or bounds[-1] < bounds[0]:
            return False
        last = bounds[-1]
    return True


def _job_update(found: list[Cause], spec: Document, old: Document) -> None:
    completions, before = spec.get("completions"), old.get("completions")
    if spec.get("completionMode") != "Indexed":
        immutable(found, "spec.completions", completions, before)
    elif completions is not None and completions not in (before, spec.get("parallelism")):
        detail = "can only be modified in tandem with spec.parallelism"
        found.append(why.invalid("spec.completions", completions, detail))
    template, was = field(spec, "template"), field(old, "template")
    if template != was:
        # A job that never ran or is suspended may still be placed elsewhere (KEP-2926).
        if old.get("suspend"):
            was = _with_new_placement(template, was)
        immutable(found, "spec.template", template, was)
    for key in (
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        immutable(found, f"spec.{key}", spec.get(key), old.get(key))


def _with_new_placement(new: Document, old: Document) -> Document:
    """The old template with the new one's scheduling directives and metadata."""
    result: Document = clone(old)
    for part, keys in (
        ("metadata", ("annotations", "labels")),
        ("spec", ("nodeSelector", "tolerations", "schedulingGates", "affinity")),
    ):
        target, source = result.setdefault(part, {}), field(new, part)
        for key in keys:
            if key in source:
                target[key] = source[key]
            else:
                target.pop(key, None)
    return result


def cron_job(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Rules for a CronJob; nothing runs it here."""
    spec = field(obj, "spec")
    schedule = spec.get("schedule", "")
    if schedule and not schedule.startswith("@") and len(schedule.split()) != 5:
        count = len(schedule.split())
        detail = f"expected exactly 5 fields, found {count}: {why.show(schedule.split())}"
        found.append(why.invalid("spec.schedule", schedule, detail))
    supported = ("Allow", "Forbid", "Replace")
    if spec.get("concurrencyPolicy") not in supported:
        value = spec.get("concurrencyPolicy", "")
        found.append(why.not_supported("spec.concurrencyPolicy", value, supported))
    for key in (
        "startingDeadlineSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    ):
        non_negative(found, f"spec.{key}", spec.get(key))
    _job_spec(found, field(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")


# --- replicas -----------------------------------------------------------------------------------


def _replicated(
    found: list[Cause], spec: Document, kind: str, *, template: Document | None = None
) -> None:
    """Selector, template and restart policy of a set of equal pods."""
    non_negative(found, "spec.minReadySeconds", spec.get("minReadySeconds"))
    selector = spec.get("selector")
    if selector is None:
        found.append(why.required("spec.selector"))
    else:
        label_selector(found, selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            detail = f"empty selector is invalid for {kind}"
            found.append(why.invalid("spec.selector", selector, detail))
    chosen = field(spec, "template") if template is None else template
    actual = field(chosen, "metadata", "labels")
    if selector and not selects(selector, actual):
        found.append(why.invalid("spec.template.metadata.labels", actual, _MISMATCH))
    pod_template(found, chosen, "spec.template")
    pod = field(chosen, "spec")
    if pod.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        return  # found already
    if pod.get("restartPolicy", "Always") != "Always":
        here = "spec.template.spec.restartPolicy"
        found.append(why.not_supported(here, pod["restartPolicy"], ("Always",)))


def _no_deadline(found: list[Cause], spec: Document, kind: str) -> None:
    if "activeDeadlineSeconds" in field(spec, "template", "spec"):
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        found.append(why.forbidden("spec.template.spec.activeDeadlineSeconds", detail))


_STATEFUL_UPDATE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template',"
    " 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and"
    " 'minReadySeconds' are forbidden"
)
_STATEFUL_MUTABLE = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)


def stateful_set(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a StatefulSet."""
    spec = field(obj, "spec")
    policy = spec.get("podManagementPolicy", "OrderedReady")
    if policy not in ("OrderedReady", "Parallel"):
        detail = "must be 'OrderedReady' or 'Parallel'"
        found.append(why.invalid("spec.podManagementPolicy", policy, detail))
    strategy = field(spec, "updateStrategy")
    kind = strategy.get("type", "RollingUpdate")
    here = "spec.updateStrategy"
    if kind not in ("RollingUpdate", "OnDelete"):
        found.append(why.invalid(here, strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    elif "rollingUpdate" in strategy:
        rolling = strategy["rollingUpdate"]
        if kind == "OnDelete":
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            found.append(why.invalid(f"{here}.rollingUpdate", rolling, detail))
        non_negative(found, f"{here}.rollingUpdate.partition", rolling.get("partition"))
    retention = field(spec, "persistentVolumeClaimRetentionPolicy")
    for key in ("whenDeleted", "whenScaled"):
        value = retention.get(key, "Retain")
        if value not in ("Retain", "Delete"):
            place = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
            found.append(why.not_supported(place, value, ("Retain", "Delete")))
    non_negative(found, "spec.replicas", spec.get("replicas"))
    non_negative(found, "spec.ordinals.start", field(spec, "ordinals").get("start"))
    service = spec.get("serviceName")
    if service and old is None:
        fault = label_fault(service)
        if fault:
            found.append(why.invalid("spec.serviceName", service, fault))
    _replicated(found, spec, "statefulset", template=_with_claims(spec))
    _no_deadline(found, spec, "StatefulSet")
    if old is not None:
        before = field(old, "spec")
        if any(
            spec.get(key) != before.get(key)
            for key in {*spec, *before}.difference(_STATEFUL_MUTABLE)
        ):
            found.append(why.forbidden("spec", _STATEFUL_UPDATE))


def _with_claims(spec: Document) -> Document:
    """The template as the controller will fill it in: claims as volumes, own host names."""
    template = field(spec, "template")
    pod = field(template, "spec")
    claims = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for claim in items(spec, "volumeClaimTemplates")
        if (name := field(claim, "metadata").get("name", ""))
    ]
    names = {claim["name"] for claim in claims}
    if not names and not pod.get("hostname") and not pod.get("subdomain"):
        return template
    rest = [volume for volume in items(pod, "volumes") if volume.get("name") not in names]
    changed = {key: item for key, item in pod.items() if key not in ("hostname", "subdomain")}
    changed["volumes"] = claims + rest
    return {**template, "spec": changed}


def deployment(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a Deployment."""
    spec = field(obj, "spec")
    non_negative(found, "spec.replicas", spec.get("replicas"))
    _replicated(found, spec, "deployment")
    _no_deadline(found, spec, "ReplicaSet")
    strategy = field(spec, "strategy")
    kind = strategy.get("type", "RollingUpdate")
    if kind == "Recreate":
        if "rollingUpdate" in strategy:
            detail = "may not be specified when strategy `type` is 'Recreate'"
            found.append(why.forbidden("spec.strategy.rollingUpdate", detail))
    elif kind == "RollingUpdate":
        _rolling(found, field(strategy, "rollingUpdate"), "spec.strategy.rollingUpdate")
    else:
        supported = ("Recreate", "RollingUpdate")
        found.append(why.not_supported("spec.strategy", strategy, supported))
    non_negative(found, "spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    non_negative(found, "spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        detail = "must be greater than minReadySeconds"
        found.append(why.invalid("spec.progressDeadlineSeconds", deadline, detail))
    if old is not None:
        immutable(found, "spec.selector", spec.get("selector"), field(old, "spec").get("selector"))


def _rolling(found: list[Cause], rolling: Document, path: str) -> None:
    unavailable, surge = rolling.get("maxUnavailable", "25%"), rolling.get("maxSurge", "25%")
    int_or_percent(found, f"{path}.maxUnavailable", unavailable)
    int_or_percent(found, f"{path}.maxSurge", surge)
    if _amount(unavailable) == 0 and _amount(surge) == 0:
        detail = "may not be 0 when `maxSurge` is 0"
        found.append(why.invalid(f"{path}.maxUnavailable", unavailable, detail))
    at_most_everything(found, f"{path}.maxUnavailable", unavailable)


def replica_set(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a ReplicaSet."""
    spec = field(obj, "spec")
    non_negative(found, "spec.replicas", spec.get("replicas"))
    _replicated(found, spec, "deployment")  # sic: upstream's words
    _no_deadline(found, spec, "ReplicaSet")
    if old is not None:
        immutable(found, "spec.selector", spec.get("selector"), field(old, "spec").get("selector"))


def replication_controller(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Rules for a ReplicationController; nothing runs it here."""
    spec = field(obj, "spec")
    non_negative(found, "spec.replicas", spec.get("replicas"))
    selector = field(spec, "selector")
    if not selector:
        found.append(why.required("spec.selector"))
    labels(found, selector, "spec.selector")
    if "template" not in spec:
        found.append(why.required("spec.template"))
        return
    if any(_template_labels(spec).get(key) != value for key, value in selector.items()):
        here = "spec.template.metadata.labels"
        found.append(why.invalid(here, _template_labels(spec), _MISMATCH))
    pod_template(found, spec["template"], "spec.template")


def daemon_set(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a DaemonSet; nothing runs it here."""
    spec = field(obj, "spec")
    _replicated(found, spec, "daemonset")
    _no_deadline(found, spec, "DaemonSet")
    strategy = field(spec, "updateStrategy")
    if strategy.get("type", "RollingUpdate") not in ("RollingUpdate", "OnDelete"):
        supported = ("RollingUpdate", "OnDelete")
        found.append(why.not_supported("spec.updateStrategy", strategy, supported))
    if old is not None:
        immutable(found, "spec.selector", spec.get("selector"), field(old, "spec").get("selector"))


def controller_revision(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Rules for a ControllerRevision."""
    non_negative(found, "revision", obj.get("revision"))
    if type(obj.get("data")) is not dict:
        found.append(why.required("data", "data is mandatory"))
    if old is not None:
        immutable(found, "data", obj.get("data"), old.get("data"))


def template_object(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Rules for a PodTemplate."""
    pod_template(found, field(obj, "template"), "template")
