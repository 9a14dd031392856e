"""What kinds with a pod template share, beside the template itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.fields import non_negative
from traincrew.local.apiserver.kinds.shared.meta import (
    MISMATCH,
    label_selector,
    selects,
    well_formed,
)
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import label_fault

from .defaults import default_template
from .pod import pod_template
from .warnings import warn_of_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "default_replicas",
    "default_rolling_update",
    "no_deadline",
    "replicated",
    "same_generation",
    "warn_of_name",
    "warn_of_replicas",
]


def warn_of_name(obj: Document, where: str = "Pod names and hostnames") -> Iterator[str]:
    """Yield a warning if a name is no DNS label."""
    name = obj["metadata"].get("name", "")
    fault = label_fault(name)
    if fault:
        yield (
            f"metadata.name: this is used in {where}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{fault}]"
        )


def same_generation(obj: Document, old: Document | None) -> bool:
    """Return whether an update leaves the desired state as it was."""
    return old is not None and (
        obj["metadata"].get("generation") == old["metadata"].get("generation")
    )


def warn_of_replicas(obj: Document, old: Document | None) -> Iterator[str]:
    """Yield warnings about Deployments, ReplicaSets and ReplicationControllers."""
    if old is None:
        yield from warn_of_name(obj)
    if not same_generation(obj, old):
        yield from warn_of_template(field(obj, "spec", "template"), "spec.template")


def default_rolling_update(strategy: Any, **fields: object) -> None:
    """Choose rolling updates if a strategy has no type; set defaults of their fields."""
    if type(strategy) is not dict:
        return
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        if type(rolling) is dict:
            for key, value in fields.items():
                rolling.setdefault(key, value)


def default_replicas(obj: Document) -> None:
    """Fill in the defaults of a ReplicaSet, which a ReplicationController has as well, in place."""
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("replicas", 1)
        default_template(spec.get("template"))


def replicated(
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


def no_deadline(found: list[Cause], spec: Document, kind: str) -> None:
    """Refuse ``activeDeadlineSeconds`` in a template whose pods run for ever."""
    if "activeDeadlineSeconds" in field(spec, "template", "spec"):
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        found.append(why.forbidden("spec.template.spec.activeDeadlineSeconds", detail))
