"""What PodGroups and the templates of Workloads share.

Rules: `pkg/apis/scheduling/v1alpha2/zz_generated.validations.go` of release 1.36, with the feature
gates for the API and for gangs on, and those that build on them off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["drop_gated", "required_name", "scheduling_policy", "unchanged"]

_GATED = (
    "disruptionMode",
    "priority",
    "priorityClassName",
    "resourceClaims",
    "schedulingConstraints",
)


def drop_gated(holder: Document, old: Document | None = None) -> None:
    """Remove the fields whose feature gates are off, as upstream does without a word."""
    for key in _GATED:
        if old is None or key not in old:
            holder.pop(key, None)


def required_name(found: list[Cause], path: str, value: str, fault: str) -> None:
    """Refuse an empty name, or one with a fault."""
    if not value:
        found.append(why.required(path))
    elif fault:
        found.append(why.invalid(path, value, fault))


def scheduling_policy(found: list[Cause], holder: Document, path: str) -> None:
    """Validate the `schedulingPolicy` of a PodGroup or of a template."""
    policy, here = field(holder, "schedulingPolicy"), f"{path}.schedulingPolicy"
    chosen = [f"`{key}`" for key in ("basic", "gang") if policy.get(key) is not None]
    if not chosen:
        found.append(why.invalid(here, "", "must specify one of: `basic`, `gang`"))
    elif len(chosen) > 1:
        detail = "must specify exactly one of: `basic`, `gang`"
        found.append(why.invalid(here, f"{{{', '.join(chosen)}}}", detail))
    elif policy.get("gang") is not None:
        least = policy["gang"].get("minCount", 0)
        if least == 0:
            found.append(why.required(f"{here}.gang.minCount"))
        elif least < 0:
            detail = "must be greater than or equal to 1"
            found.append(why.invalid(f"{here}.gang.minCount", least, detail))


def unchanged(found: list[Cause], spec: Document, before: Document, *keys: str) -> None:
    """Refuse changes of fields of a spec; as upstream, the message does not show the value."""
    changed = [key for key in keys if spec.get(key) != before.get(key)]
    found += [why.invalid(f"spec.{key}", None, "field is immutable") for key in changed]
