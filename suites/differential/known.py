"""The differences that remain, each with its name and its reason.

Hardly one is about what is stored: they are about what is said when both servers refuse, about
advice, and about revisions. `docs/design/differential.md` shows the list. Taken out of the
comparison before it starts are the times, uids, revisions and addresses every server chooses for
itself (`compare.py`), and what two admission plugins add (`reference.py` turns them off): nobody
here would take the finalizer of a claim off, and how long a pod stays on a lost node is not the
API server's to say.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .compare import differences
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
    """

    name: str
    why: str
    level: Callable[[Resource, Request, Canonical, Canonical], None]


def _warnings(_resource: Resource, _request: Request, real: Canonical, embedded: Canonical) -> None:
    given = embedded["warnings"]
    kept = [text for text in real["warnings"] if text in given or _READER.match(text)]
    real["warnings"], embedded["warnings"] = sorted(kept), sorted(given)


_READER = re.compile(r"(unknown|duplicate) field|json patch")


def _both_invalid(real: Canonical, embedded: Canonical) -> bool:
    return all(
        each["code"] == 422
        and each["body"].get("reason") == "Invalid"
        and each["body"].get("details", {}).get("causes")
        for each in (real, embedded)
    )


def _wording(_resource: Resource, _request: Request, real: Canonical, embedded: Canonical) -> None:
    if real["code"] == embedded["code"] == 500:
        for each in (real, embedded):  # upstream names the faults it meets first in a Go map
            each["body"]["message"] = each["body"]["message"].partition("): ")[0]
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
        del each["body"]["details"], each["body"]["message"]


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
    if numbers[0] and numbers[1] and int(numbers[0][1]) > int(numbers[1][1]):
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
    ),
    Known(
        "revision of the same object",
        "A write that changes nothing makes a new revision upstream where the stored form is not "
        "the one that is read: a new claim is stored without its phase, which is a default, and "
        "with it by the next write. Every field is the same; here nothing is written.",
        _revision,
    ),
    Known(
        "advice",
        "Warnings about what an object asks for (a null label selector, a repeated variable, an "
        "external address) are not given; those about unknown and repeated fields are, in any "
        "order.",
        _warnings,
    ),
    Known(
        "wording of a refusal",
        "Both refuse the same fields for the same reasons, in another order or with other "
        "words: upstream prints wrong values as its internal Go types, we as they were sent.",
        _wording,
    ),
    Known(
        "rules named in a refusal",
        "Both refuse with 422, and name different ones of the broken rules: ours stop once a "
        "required field is missing or an address cannot be given, upstream goes on.",
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
