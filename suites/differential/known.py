"""The differences that remain, each with its name and its reason.

Hardly one is about what is stored: they are about what is said when both servers refuse, and about
what upstream itself answers differently from time to time. `docs/design/differential.md` shows the
list. Taken out of the comparison before it starts are the times, uids, revisions and addresses
every server chooses for itself (`compare.py`), and what two admission plugins add (`reference.py`
turns them off): nobody here would take the finalizer of a claim off, and how long a pod stays on a
lost node is not the API server's to say.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .compare import differences
from .custom import GROUP
from .wire import HUNG_UP

if TYPE_CHECKING:
    from collections.abc import Callable

    from .wire import Request, Resource

Canonical = dict[str, Any]


class Known(NamedTuple):
    """A class of differences.

    Attributes:
        name: for reports.
        why: what differs, and why it may.
        level: makes two answers equal where they differ in nothing else, in place.
        ends: whether the servers hold different objects from here on, so that the history is over.
    """

    name: str
    why: str
    level: Callable[[Resource, Request, Canonical, Canonical], None]
    ends: bool = False


def _stale_advice(
    _resource: Resource, _request: Request, real: Canonical, embedded: Canonical
) -> None:
    """Take out what only the real server says."""
    given = embedded["warnings"]
    said = iter(real["warnings"])
    if all(text in said for text in given):  # in the same order
        real["warnings"] = list(given)


def _both_invalid(real: Canonical, embedded: Canonical) -> bool:
    return all(
        each["code"] == 422
        and each["body"].get("reason") == "Invalid"
        and each["body"].get("details", {}).get("causes")
        for each in (real, embedded)
    )


def _map_order(resource: Resource, _request: Request, real: Canonical, embedded: Canonical) -> None:
    """Sort what upstream finds while it goes through a Go map: in a custom resource."""
    if real["code"] == embedded["code"] == 500:
        for each in (real, embedded):  # upstream stops at an unknown field, wherever it meets it
            each["body"]["message"] = each["body"]["message"].partition("): ")[0]
    if not _both_invalid(real, embedded) or resource.group != GROUP:
        return
    for each in (real, embedded):
        causes = each["body"]["details"]["causes"]
        causes.sort(key=lambda cause: (cause.get("field", ""), cause.get("message", "")))
        each["body"].pop("message", None)  # the causes once more


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
            each["body"].pop(field, None)  # another class may have taken it


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
        "The real server ends the connection: its JSON patch library (evanphx/json-patch 4.13) "
        "dereferences nil where a `test` compares null with null.",
        _panic,
    ),
    Known(
        "claim templates sent again",
        "A patch or an update that sends a StatefulSet's volumeClaimTemplates as they are takes "
        "their ownership upstream; here a value that does not change does not change hands.",
        _templates,
        ends=True,
    ),
    Known(
        "second of a write",
        "Managers are sorted by the second of their last write. Who applies what is there already, "
        "and an empty list beside, comes last if a second has passed since the others wrote, and "
        "that is a new revision on both servers. They do not get a request in the same instant.",
        _revision,
        ends=True,
    ),
    Known(
        "advice of a first try",
        "Upstream tries an update on what its cache holds, which may be a moment old, and again on "
        "what is stored; the answer has the warnings of both. Ours has those of the second.",
        _stale_advice,
    ),
    Known(
        "order of a Go map",
        "Upstream goes through the fields of a custom resource in no order, and stops at the first "
        "unknown one of an applied configuration: its answer differs from itself.",
        _map_order,
    ),
    Known(
        "wording of a refusal",
        "Both refuse the same fields for the same reasons, and say one of them otherwise: a value "
        "upstream has filled in by then (requests beside empty limits) or compared in another way.",
        _wording,
    ),
    Known(
        "rules named in a refusal",
        "Both refuse with 422, and name different ones of the broken rules: upstream does not "
        "check the rest of a thing it has found wrong, or goes on where ours stop.",
        _other_rules,
    ),
)


def explain(
    resource: Resource, request: Request, real: Canonical, embedded: Canonical
) -> tuple[list[str], list[Known]]:
    """What differs beyond the known, and the known classes that explain the rest."""
    left, right = copy.deepcopy(real), copy.deepcopy(embedded)
    lines = differences(left, right)
    used = []
    for known in KNOWN:
        if not lines:
            break
        known.level(resource, request, left, right)
        remaining = differences(left, right)
        if remaining != lines:
            used.append(known)
        lines = remaining
    return (differences(real, embedded), []) if lines else ([], used)
