"""Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_template
from traincrew.local.apiserver.kinds.podspec.templates import same_generation, warn_of_name
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_template
from traincrew.local.apiserver.kinds.shared.cells import (
    TEMPLATE_COLUMNS,
    age_of,
    conditions_of,
    containers_of,
    name_of,
    selector_text,
    template_spec,
)
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.durations import between
from traincrew.local.apiserver.values.selectors import FieldLabels

from .jobrules import job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY", "default_failure_policy", "warn_of_spec"]


def _job_status(obj: Document) -> str:
    conditions = conditions_of(obj)
    for name in ("Complete", "Failed"):
        if conditions.get(name) == "True":
            return name
    if obj["metadata"].get("deletionTimestamp") is not None:
        return "Terminating"
    for name in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if conditions.get(name) == "True":
            return name
    return "Running"


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Job."""
    spec, status = field(obj, "spec"), field(obj, "status")
    succeeded, wanted = status.get("succeeded", 0), spec.get("completions")
    completions = f"{succeeded}/{1 if wanted is None else wanted}"
    if wanted is None and spec.get("parallelism", 0) > 1:
        completions += f" of {spec['parallelism']}"
    return [
        name_of(obj),
        _job_status(obj),
        completions,
        between(status.get("startTime"), status.get("completionTime"), now),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        selector_text(spec.get("selector")),
    ]


_MAX_COMPLETIONS, _MAX_PARALLELISM = 100_000, 10_000


def warn_of_spec(spec: Document, path: str) -> Iterator[str]:
    """Yield warnings about the spec of a Job, also in the template of a CronJob."""
    if (
        spec.get("completionMode") == "Indexed"
        and (spec.get("completions") or 0) > _MAX_COMPLETIONS
        and (spec.get("parallelism") or 0) > _MAX_PARALLELISM
    ):
        yield (
            f"{path}: In Indexed Jobs with a number of completions higher than 10^5 and a "
            "parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes "
            "when a big number of indexes fail"
        )
    yield from warn_of_template(field(spec, "template"), f"{path}.template")


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    if old is None:
        yield from warn_of_name(obj)
    if not same_generation(obj, old):
        yield from warn_of_spec(field(obj, "spec"), "spec")


_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")

_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")


def _default_after_uid(obj: Document) -> None:
    """Fill in selector and labels, in place, unless there is ``manualSelector: true``."""
    spec = obj.get("spec")
    if type(spec) is not dict or spec.get("manualSelector") is True:
        return
    if type(spec.get("template")) is not dict:
        return
    metadata = spec["template"].setdefault("metadata", {})
    if type(metadata) is not dict:
        return
    labels = metadata["labels"] = metadata.get("labels") or {}
    uid, name = obj["metadata"].get("uid", ""), obj["metadata"].get("name", "")
    for key in _NAME_LABELS:
        labels.setdefault(key, name)
    for key in _UID_LABELS:
        labels.setdefault(key, uid)
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = labels
    selector = spec["selector"] = spec.get("selector") or {}
    wanted = selector["matchLabels"] = selector.get("matchLabels") or {}
    wanted.setdefault(_UID_LABELS[1], uid)


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    if "backoffLimit" not in spec:
        spec["backoffLimit"] = 2**31 - 1 if "backoffLimitPerIndex" in spec else 6
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    default_failure_policy(spec)
    # A struct in Go, not a pointer: it is defaulted even when absent.
    default_template(spec.setdefault("template", {}))
    labels = field(spec, "template", "metadata").get("labels")
    metadata = obj.get("metadata")
    if type(labels) is dict and labels and type(metadata) is dict and not metadata.get("labels"):
        # Upstream shares one map: labels that `_default_after_uid` adds to one of them are in the
        # other, too.
        metadata["labels"] = labels


def default_failure_policy(spec: Document) -> None:
    """Fill in the defaults of ``podFailurePolicy``, in place; also in the template of a CronJob."""
    for rule in items(spec, "podFailurePolicy", "rules"):
        for pattern in items(rule, "onPodConditions"):
            pattern.setdefault("status", "True")


STRATEGY = Strategy(
    selectable=FieldLabels(
        {"status.successful": ("status.succeeded",)},
        absent={"status.successful": "0"},
        own_message=True,
    ),
    columns=f"Name Status Completions Duration Age {TEMPLATE_COLUMNS}",
    row=_row,
    warn=_warn,
    default=_default,
    default_after_uid=_default_after_uid,
    validate=job,
)
