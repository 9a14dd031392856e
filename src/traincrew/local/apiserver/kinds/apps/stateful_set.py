"""StatefulSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.defaults import default_claim, default_template
from traincrew.local.apiserver.kinds.podspec.resources import claim_spec
from traincrew.local.apiserver.kinds.podspec.templates import (
    no_deadline,
    replicated,
    same_generation,
)
from traincrew.local.apiserver.kinds.podspec.warnings import warn_of_claim, warn_of_template
from traincrew.local.apiserver.kinds.shared.cells import (
    age_of,
    containers_of,
    name_of,
    template_spec,
)
from traincrew.local.apiserver.kinds.shared.fields import non_negative
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import label_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document


__all__ = ["STRATEGY"]


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a StatefulSet."""
    ready = field(obj, "status").get("readyReplicas", 0)
    return [
        name_of(obj),
        f"{ready}/{field(obj, 'spec').get('replicas', 0)}",
        age_of(obj, now),
        *containers_of(template_spec(obj)),
    ]


def _warn(obj: Document, old: Document | None) -> Iterator[str]:
    spec = field(obj, "spec")
    if not same_generation(obj, old):
        yield from warn_of_template(field(spec, "template"), "spec.template")
    for index, claim in enumerate(items(spec, "volumeClaimTemplates")):
        here = f"spec.volumeClaimTemplates[{index}]" + (".Spec" if old is not None else "")
        yield from warn_of_claim(field(claim, "spec"), here)
    if spec.get("revisionHistoryLimit", 0) < 0:
        text = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {text}"


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.setdefault("updateStrategy", {})
    if type(strategy) is dict:
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        rolling = strategy.get("rollingUpdate")
        if strategy["type"] == "RollingUpdate" and type(rolling) is dict:
            rolling.setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    if type(retention) is dict:
        retention.setdefault("whenDeleted", "Retain")
        retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    for claim in items(spec, "volumeClaimTemplates"):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        default_claim(claim)
    default_template(spec.get("template"))


_FORBIDDEN_UPDATE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template',"
    " 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and"
    " 'minReadySeconds' are forbidden"
)

_MUTABLE = (
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
)


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
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
        shown = {"Type": kind, "RollingUpdate": strategy.get("rollingUpdate")}
        found.append(why.invalid(here, shown, "must be 'RollingUpdate' or 'OnDelete'"))
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
    replicated(found, spec, "statefulset", template=_with_claims(spec))
    no_deadline(found, spec, "StatefulSet")
    if old is not None:
        before = field(old, "spec")
        if any(spec.get(key) != before.get(key) for key in {*spec, *before}.difference(_MUTABLE)):
            found.append(why.forbidden("spec", _FORBIDDEN_UPDATE))


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


STRATEGY = Strategy(
    columns="Name Ready Age Containers* Images*",
    row=_row,
    warn=_warn,
    default=_default,
    validate=_validate,
    name_fault=label_fault,
)
