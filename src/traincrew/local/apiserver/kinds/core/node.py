"""Nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, conditions_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import qualified_name_fault
from traincrew.local.apiserver.values.selectors import FieldLabels

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a Node."""
    status = field(obj, "status")
    info = field(status, "nodeInfo")
    condition = conditions_of(obj).get("Ready")
    words = ["Unknown" if condition is None else "Ready" if condition == "True" else "NotReady"]
    if field(obj, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    labels = field(obj, "metadata", "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    addresses: dict[str, str] = {}
    for address in items(status, "addresses"):
        addresses.setdefault(address.get("type", ""), address.get("address", ""))
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(obj),
        ",".join(words),
        ",".join(sorted(roles - {""})) or NONE,
        age_of(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _default(obj: Document) -> None:
    status = obj.get("status")
    if type(status) is dict and status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a Node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(items(obj, "spec", "taints")):
        here = f"metadata.taints[{index}]"  # as upstream
        key, effect = taint.get("key", ""), taint.get("effect", "")
        fault = qualified_name_fault(key)
        if fault:
            found.append(why.invalid(f"{here}.key", key, fault))
        if effect not in _EFFECTS:
            found.append(why.not_supported(f"{here}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            found.append(why.duplicate(here, taint))
        seen.add((key, effect))


STRATEGY = Strategy(
    selectable=FieldLabels.of("spec.unschedulable", absent={"spec.unschedulable": "false"}),
    columns=(
        "Name Status Roles Age Version "
        "Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*"
    ),
    row=_row,
    default=_default,
    validate=_validate,
    # Nodes register with their status.
    status_on_create=True,
)
