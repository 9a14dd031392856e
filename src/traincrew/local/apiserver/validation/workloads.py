"""Rules for StatefulSet, Deployment, ReplicaSet, DaemonSet and the like.

Source: ``pkg/apis/apps/validation``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_fault

from .fields import immutable, non_negative
from .meta import MISMATCH, label_selector, labels, selects, template_labels, well_formed
from .pod import pod_template
from .resources import claim_spec

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "at_most_everything",
    "controller_revision",
    "daemon_set",
    "deployment",
    "int_or_percent",
    "replica_set",
    "replication_controller",
    "stateful_set",
    "template_object",
]


def int_or_percent(found: list[Cause], path: str, value: Any) -> None:
    """Validate a non-negative number or a percentage."""
    if type(value) is int:
        non_negative(found, path, value)
    elif not re.fullmatch(r"[0-9]+%", value):
        detail = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',"
            "  or '93%', regex used for validation is '[0-9]+%')"
        )
        found.append(why.invalid(path, value, detail))


def at_most_everything(found: list[Cause], path: str, value: Any) -> None:
    """Refuse percentages above 100."""
    if type(value) is str and re.fullmatch(r"[0-9]+%", value) and int(value[:-1]) > 100:
        found.append(why.invalid(path, value, "must not be greater than 100%"))


def _amount(value: Any) -> int:
    """Return a number or percentage as a plain number."""
    text = str(value).removesuffix("%")
    return int(text) if text.isdigit() else 0


def _replicated(
    found: list[Cause], spec: Document, kind: str, *, template: Document | None = None
) -> None:
    """Validate selector, template and restart policy of a replicated workload."""
    non_negative(found, "spec.minReadySeconds", spec.get("minReadySeconds"))
    selector = spec.get("selector")
    if selector is None:
        if kind != "daemonset":
            found.append(why.required("spec.selector"))
    else:
        label_selector(found, selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            detail = f"empty selector is invalid for {kind}"
            shown = form("metav1.LabelSelector", selector)
            found.append(why.invalid("spec.selector", shown, detail))
    chosen = field(spec, "template") if template is None else template
    actual = field(chosen, "metadata", "labels")
    if selector is not None and not well_formed(selector):
        found.append(why.invalid("spec.selector", selector, "invalid label selector"))
    elif selector is None or not selects(selector, actual):
        shown = field(chosen, "metadata").get("labels")
        found.append(why.invalid("spec.template.metadata.labels", shown, MISMATCH))
    pod_template(found, chosen, "spec.template")
    pod = field(chosen, "spec")
    if pod.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        return  # already reported
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
    """Validate a StatefulSet."""
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
            shown = form("apps.RollingUpdateStatefulSetStrategy", rolling)
            found.append(why.invalid(f"{here}.rollingUpdate", shown, detail))
        non_negative(found, f"{here}.rollingUpdate.partition", rolling.get("partition"))
    retention = field(spec, "persistentVolumeClaimRetentionPolicy")
    for key in ("whenDeleted", "whenScaled"):
        value = retention.get(key, "Retain")
        if value not in ("Retain", "Delete"):
            place = f"spec.persistentVolumeClaimRetentionPolicy.{key}"
            found.append(why.not_supported(place, value, ("Retain", "Delete")))
    non_negative(found, "spec.replicas", spec.get("replicas"))
    non_negative(found, "spec.ordinals.start", field(spec, "ordinals").get("start"))
    service = spec.get("serviceName")  # optional; the schema requires selector and template
    if old is None:
        fault = label_fault(service) if service else ""
        if fault:
            found.append(why.invalid("spec.serviceName", service, fault))
        for index, claim in enumerate(items(spec, "volumeClaimTemplates")):
            claim_spec(found, field(claim, "spec"), f"spec.volumeClaimTemplates[{index}].spec")
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
    """Return the template with claims as volumes, and without host names, which pods get."""
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
    """Validate a Deployment."""
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
    """Validate a ReplicaSet."""
    spec = field(obj, "spec")
    non_negative(found, "spec.replicas", spec.get("replicas"))
    _replicated(found, spec, "deployment")  # sic: upstream's message says so
    _no_deadline(found, spec, "ReplicaSet")
    if old is not None:
        immutable(found, "spec.selector", spec.get("selector"), field(old, "spec").get("selector"))


def replication_controller(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a ReplicationController; no controller runs it here."""
    spec = field(obj, "spec")
    non_negative(found, "spec.replicas", spec.get("replicas"))
    selector = field(spec, "selector")
    if not selector:
        found.append(why.required("spec.selector"))
    labels(found, selector, "spec.selector")
    if "template" not in spec:
        found.append(why.required("spec.template"))
        return
    if any(template_labels(spec).get(key) != value for key, value in selector.items()):
        here = "spec.template.metadata.labels"
        found.append(why.invalid(here, field(spec, "template", "metadata").get("labels"), MISMATCH))
    pod_template(found, spec["template"], "spec.template")


def daemon_set(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a DaemonSet; no controller runs it here."""
    spec = field(obj, "spec")
    if old is not None:
        immutable(found, "spec.selector", spec.get("selector"), field(old, "spec").get("selector"))
    _replicated(found, spec, "daemonset")
    _no_deadline(found, spec, "DaemonSet")
    strategy = field(spec, "updateStrategy")
    if strategy.get("type", "RollingUpdate") not in ("RollingUpdate", "OnDelete"):
        supported = ("RollingUpdate", "OnDelete")
        found.append(why.not_supported("spec.updateStrategy", strategy, supported))
    elif strategy.get("type", "RollingUpdate") == "RollingUpdate":
        _daemon_rollout(found, field(strategy, "rollingUpdate"))


def _daemon_rollout(found: list[Cause], rollout: Document) -> None:
    here = "spec.updateStrategy.rollingUpdate"
    unavailable, surge = rollout.get("maxUnavailable", 0), rollout.get("maxSurge", 0)
    for key, value in (("maxUnavailable", unavailable), ("maxSurge", surge)):
        int_or_percent(found, f"{here}.{key}", value)
        at_most_everything(found, f"{here}.{key}", value)
    if _amount(unavailable) and _amount(surge):
        detail = "may not be set when maxUnavailable is non-zero"
        found.append(why.invalid(f"{here}.maxSurge", surge, detail))
    elif not _amount(unavailable) and not _amount(surge):
        found.append(why.required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0"))


def controller_revision(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a ControllerRevision."""
    non_negative(found, "revision", obj.get("revision"))
    if type(obj.get("data")) is not dict:
        found.append(why.required("data", "data is mandatory"))
    if old is not None:
        immutable(found, "data", obj.get("data"), old.get("data"))


def template_object(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a PodTemplate."""
    pod_template(found, field(obj, "template"), "template")
