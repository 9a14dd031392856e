"""The differences that remain, each with its name and its reason.

All but the last two are about what is said when both servers refuse, or about advice; neither
touches an object. `docs/design/differential.md` shows the list. Three things are taken out of the
comparison before it starts, because the embedded cluster leaves them to nobody else: the
tolerations and the finalizers of two admission plugins (`reference.py` turns them off), and the
times, uids, revisions and addresses every server chooses for itself (`compare.py`).
"""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from .compare import differences

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
        ends: whether the stored objects differ from here on, so that the history ends.
    """

    name: str
    why: str
    level: Callable[[Resource, Request, Canonical, Canonical], None]
    ends: bool = False


def _warnings(_resource: Resource, _request: Request, real: Canonical, embedded: Canonical) -> None:
    given = embedded["warnings"]
    real["warnings"] = [text for text in real["warnings"] if text in given or _READER.match(text)]


_READER = re.compile(r"(unknown|duplicate) field|json patch")


def _both_invalid(real: Canonical, embedded: Canonical) -> bool:
    return all(
        each["code"] == 422
        and each["body"].get("reason") == "Invalid"
        and each["body"].get("details", {}).get("causes")
        for each in (real, embedded)
    )


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
        del each["body"]["details"]["causes"], each["body"]["message"]


def _other_rules(
    _resource: Resource, _request: Request, real: Canonical, embedded: Canonical
) -> None:
    if _both_invalid(real, embedded):
        _forget_causes(real, embedded)


KNOWN = (
    Known(
        "advice",
        "Warnings about what an object asks for (a null label selector, a repeated variable, an "
        "external address) are not given; those about unknown and repeated fields are.",
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
