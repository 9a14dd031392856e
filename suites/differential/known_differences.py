"""The known differences, each with its name and reason.

Few concern the stored object: most are about the messages when both servers refuse a request, and
about responses in which upstream itself varies. `docs/design/differential.md` has the list. The
comparison excludes the times, uids, resourceVersions and addresses that every server assigns
(`compare.py`).
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .compare import differences
from .custom import GROUP
from .requests import HUNG_UP

if TYPE_CHECKING:
    from collections.abc import Callable

    from .requests import Request, Resource

Canonical = dict[str, Any]


class Known(NamedTuple):
    """A class of differences.

    Attributes:
        name: name in reports.
        why: what differs, and why that is accepted.
        equalize: makes two responses equal that differ in nothing else, in place.
        ends: whether the stored objects differ from here on, which ends the history.
    """

    name: str
    why: str
    equalize: Callable[[Resource, Request, Canonical, Canonical], None]
    ends: bool = False


def _stale_warnings(
    _resource: Resource, _request: Request, real: Canonical, embedded: Canonical
) -> None:
    """Remove the warnings that only the real server gives."""
    given = embedded["warnings"]
    received = iter(real["warnings"])
    if all(text in received for text in given):  # in the same order
        real["warnings"] = list(given)


def _both_invalid(real: Canonical, embedded: Canonical) -> bool:
    return all(
        each["code"] == 422
        and each["body"].get("reason") == "Invalid"
        and each["body"].get("details", {}).get("causes")
        for each in (real, embedded)
    )


def _map_order(resource: Resource, _request: Request, real: Canonical, embedded: Canonical) -> None:
    """Sort what upstream finds while it iterates over a Go map, in a custom resource."""
    if real["code"] == embedded["code"] == 500:
        for each in (real, embedded):  # upstream stops at the first unknown field it reaches
            each["body"]["message"] = each["body"]["message"].partition("): ")[0]
    if not _both_invalid(real, embedded) or resource.group != GROUP:
        return
    for each in (real, embedded):
        causes = each["body"]["details"]["causes"]
        causes.sort(key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
        each["body"].pop("message", None)  # it repeats the causes


def _wording(_resource: Resource, _request: Request, real: Canonical, embedded: Canonical) -> None:
    if not _both_invalid(real, embedded):
        return
    rules = [_rules(each) for each in (real, embedded)]
    if rules[0] == rules[1]:
        _forget_causes(real, embedded)


def _rules(answer: Canonical) -> list[tuple[str, str]]:
    causes = answer["body"]["details"]["causes"]
    return sorted({(cause.get("field", ""), cause.get("reason", "")) for cause in causes})


def _forget_causes(real: Canonical, embedded: Canonical) -> None:
    for each in (real, embedded):
        for field in ("details", "message"):
            each["body"].pop(field, None)  # another class may have removed it


def _other_rules(
    _resource: Resource, _request: Request, real: Canonical, embedded: Canonical
) -> None:
    if _both_invalid(real, embedded):
        _forget_causes(real, embedded)


def _revision(_resource: Resource, _request: Request, real: Canonical, embedded: Canonical) -> None:
    numbers = [
        re.fullmatch(
            r"<revision (\d+)>", each["body"].get("metadata", {}).get("resourceVersion", "")
        )
        for each in (real, embedded)
    ]
    if numbers[0] and numbers[1] and abs(int(numbers[0][1]) - int(numbers[1][1])) == 1:
        for each in (real, embedded):
            del each["body"]["metadata"]["resourceVersion"]


def _panic(_resource: Resource, _request: Request, real: Canonical, embedded: Canonical) -> None:
    if real["code"] == HUNG_UP:
        real.clear()
        real.update(copy.deepcopy(embedded))


def _templates(_resource: Resource, request: Request, real: Canonical, embedded: Canonical) -> None:
    name = "volumeClaimTemplates"
    if name not in json.dumps(request.body):
        return
    for each in (real, embedded):
        metadata = each["body"].get("metadata", {})
        owners = metadata.get("managedFields", {})
        for owner, entry in list(owners.items()):
            spec = entry.get("fieldsV1", {}).get("f:spec", {})
            spec.pop(f"f:{name}", None)
            if not spec:
                del owners[owner]
        metadata.pop("resourceVersion", None)


KNOWN = (
    Known(
        "panic upstream",
        "The real server closes the connection: its JSON patch library (evanphx/json-patch 4.13) "
        "dereferences nil where a `test` compares null with null.",
        _panic,
    ),
    Known(
        "claim templates sent again",
        "A patch or update that sends a StatefulSet's volumeClaimTemplates unchanged takes their "
        "ownership upstream; here an unchanged value keeps its owner.",
        _templates,
        ends=True,
    ),
    Known(
        "second of a write",
        "Managers are sorted by the second of their last write. An apply of unchanged values and "
        "an empty list sorts last if a second has passed since the other writes, which is a new "
        "revision on both servers. They do not get a request at the same instant.",
        _revision,
        ends=True,
    ),
    Known(
        "advice of a first try",
        "Upstream tries an update on the cached object, which may be slightly old, and again on "
        "the stored one; the response has the warnings of both. Ours has those of the second.",
        _stale_warnings,
    ),
    Known(
        "order of a Go map",
        "Upstream iterates over the fields of a custom resource in random order, and stops at the "
        "first unknown one of an applied configuration: its own response varies.",
        _map_order,
    ),
    Known(
        "wording of a refusal",
        "Both refuse the same fields for the same reasons, but one message differs: in a value "
        "that upstream has defaulted by then (requests for empty limits) or compares differently.",
        _wording,
    ),
    Known(
        "rules named in a refusal",
        "Both refuse with 422, but report different broken rules: upstream does not check the rest "
        "of an invalid value, or continues where ours stop.",
        _other_rules,
    ),
)


def explain(
    resource: Resource, request: Request, real: Canonical, embedded: Canonical
) -> tuple[list[str], list[Known]]:
    """Return the unexplained differences, or the known classes that explain them all."""
    left, right = copy.deepcopy(real), copy.deepcopy(embedded)
    lines = differences(left, right)
    used = []
    for known in KNOWN:
        if not lines:
            break
        known.equalize(resource, request, left, right)
        remaining = differences(left, right)
        if remaining != lines:
            used.append(known)
        lines = remaining
    return (differences(real, embedded), []) if lines else ([], used)
