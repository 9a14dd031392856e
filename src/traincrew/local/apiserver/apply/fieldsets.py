"""Operations on field sets, in their ``managedFields[].fieldsV1`` form.

A set is a nested dictionary. A key is a path element, here called a step: ``f:name`` is a field,
``k:{...}`` an item of a list of maps by its key fields, ``v:...`` an item of a set. ``{}`` below a
step means the step itself is a member; when it has members below it too, the dictionary has the key
``.``. Working on this form directly avoids decoding and encoding it on every write, which would
dominate the cost of most.

Sets are never changed in place; operations share the parts they do not change.

Semantics: sigs.k8s.io/structured-merge-diff (``fieldpath``).
"""

from __future__ import annotations

from typing import Any

import msgspec

FieldSet = dict[str, Any]

LEAF: FieldSet = {}
"""The value of a step that is a member and has no members below it."""

_dump = msgspec.json.Encoder(order="sorted").encode


def _is_member(below: FieldSet) -> bool:
    return not below or "." in below


def _assemble(below: FieldSet, *, member: bool) -> FieldSet | None:
    """Return the value below a step, or None when the step is not in the set at all."""
    if below:
        return {".": LEAF, **below} if member else below
    return LEAF if member else None


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields of either set."""
    if not right or left is right:
        return left
    if not left:
        return right
    result = dict(left)
    for step, below in right.items():
        present = result.get(step)
        if present is None:
            result[step] = below
        elif step != "." and present is not below:
            result[step] = _union_below(present, below)
    return result


def _union_below(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return left if not right else (right if "." in right else {".": LEAF, **right})
    if not right:
        return left if "." in left else {".": LEAF, **left}
    return union(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields that only the first set has; the same object if those are all of it."""
    if not left or not right:
        return left
    result: FieldSet | None = None
    for step, below in right.items():
        if step == ".":
            continue
        present = left.get(step)
        if present is None:
            continue
        # Most are leaves of both sets.
        rest = _difference_below(present, below) if present or below else None
        if rest is present:
            continue
        if result is None:
            result = dict(left)
        if rest is None:
            del result[step]
        else:
            result[step] = rest
    return left if result is None else result


def _difference_below(left: FieldSet, right: FieldSet) -> FieldSet | None:
    was_member = _is_member(left)
    member = was_member and not _is_member(right)
    rest = difference(left, right)
    if rest is left and member == was_member:
        return left
    return _assemble({step: below for step, below in rest.items() if step != "."}, member=member)


def exclude(fields: FieldSet, parts: FieldSet) -> FieldSet:
    """Return the set without the members of another set and everything below them."""
    if not fields or not parts:
        return fields
    result = dict(fields)
    for step, below in parts.items():
        present = result.get(step)
        if present is None or step == ".":
            continue
        if _is_member(below):
            del result[step]
        elif present:
            rest = exclude(present, below)
            if rest:
                result[step] = rest
            else:
                del result[step]
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields that are in both sets."""
    if left is right:
        return left
    result: FieldSet = {}
    small, large = (left, right) if len(left) <= len(right) else (right, left)
    for step, below in small.items():
        if step == ".":
            continue
        other = large.get(step)
        if other is None:
            continue
        kept = _assemble(
            intersection(below, other) if below and other else {},
            member=_is_member(below) and _is_member(other),
        )
        if kept is not None:
            result[step] = kept
    return result


# --- paths --------------------------------------------------------------------------------------


def paths(fields: FieldSet, prefix: str = "") -> list[str]:
    """Return the members as upstream prints them: ``.spec.containers[name="x"].image``.

    They are in upstream's order: first a set's own members, then those below.
    """
    steps = [
        (prefix + print_step(step), below)
        for step, below in sorted(fields.items(), key=_order)
        if step != "."
    ]
    found = [where for where, below in steps if _is_member(below)]
    for where, below in steps:
        if below:
            found += paths(below, where)
    return found


def _order(entry: tuple[str, FieldSet]) -> tuple[str, list[tuple[str, float, str]]]:
    """Return upstream's sort key of a step: item keys by their values, numbers as numbers."""
    step = entry[0]
    kind, _, text = step.partition(":")
    if kind != "k":
        return step, []
    values = sorted(msgspec.json.decode(text).items())
    numbers = (int, float)
    return kind, [
        (key, value, "") if isinstance(value, numbers) else (key, 0, str(value))
        for key, value in values
    ]


def print_step(step: str) -> str:
    """Return a step in printed form: ``.spec``, ``[name="x"]``, ``[="value"]``."""
    kind, _, text = step.partition(":")
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = msgspec.json.decode(text)
        shown = (f"{key}={_dump(value).decode()}" for key, value in sorted(keys.items()))
        return f"[{','.join(shown)}]"
    if kind == "v":
        return f"[={text}]"
    return f"[{text}]"
