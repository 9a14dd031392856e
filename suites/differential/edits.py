"""Random changes to documents: parts of them, edits, and the four kinds of patches."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema.node import ANY, SchemaNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .random_choice import RandomChoice
    from .requests import Document

IDENTITY = frozenset(
    (
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    )
)
"""Metadata that differs between servers or identifies the object."""


def without_identity(document: Document) -> Document:
    """Return a document's content in a form that can be sent to either server."""
    metadata = document.get("metadata", {})
    kept = {key: item for key, item in metadata.items() if key not in IDENTITY}
    result: Document = copy.deepcopy({**document, "metadata": kept})
    if result.get("kind") == "Service":
        _without_assigned(result.get("spec") or {})
    return result


def _without_assigned(spec: Document) -> None:
    """Remove the placeholders of addresses and ports a server allocated; it keeps its own."""
    if spec.get("clusterIP") == "<address>":
        del spec["clusterIP"], spec["clusterIPs"]
    for place in (spec, *spec.get("ports", ())):
        for key in ("healthCheckNodePort", "nodePort"):
            if place.get(key) == "<port>":
                del place[key]


def child(node: SchemaNode, key: str) -> SchemaNode:
    return node.fields.get(key) or node.values or ANY


def identifying(node: SchemaNode) -> frozenset[str]:
    """Return the fields that identify an item of a list."""
    keys = set(node.keys)
    if node.merge_key:
        keys.add(node.merge_key)
    return frozenset(keys)


def part(
    choice: RandomChoice,
    node: SchemaNode,
    value: Any,
    keep: float,
    keys: frozenset[str] = frozenset(),
) -> Any:
    """Return a random part of a document; fields that identify list items are always kept."""
    if isinstance(value, dict):
        return {
            key: part(choice, child(node, key), item, keep)
            for key, item in value.items()
            if key in keys or choice.maybe(keep)
        }
    if isinstance(value, list) and identifying(node):
        below = node.items or ANY
        return [
            part(choice, below, item, keep, identifying(node))
            for item in value
            if choice.maybe(keep)
        ]
    return value


def edited(choice: RandomChoice, live: Document, donor: Document, change: float = 0.15) -> Document:
    """Return a document with some entries removed or replaced by those of another one."""
    result = without_identity(live)
    _edit(choice, result, donor, change)
    return result


def _edit(choice: RandomChoice, value: Document, donor: Any, change: float) -> None:
    donor = donor if isinstance(donor, dict) else {}
    for key in list(value):
        if key in {"apiVersion", "kind", "status"}:
            continue
        if isinstance(value[key], dict) and choice.maybe(0.8):
            _edit(choice, value[key], donor.get(key), change)
        elif choice.maybe(change):
            if key in donor:
                value[key] = copy.deepcopy(donor[key])
            else:
                del value[key]
    for key in donor:
        if key not in value and choice.maybe(change):
            value[key] = copy.deepcopy(donor[key])


def merge_patch(choice: RandomChoice, node: SchemaNode, donor: Document) -> Document:
    """Return an RFC 7386 patch: parts of another document, and nulls."""
    result: Document = _with_nulls(choice, part(choice, node, donor, 0.4))
    return result


def _with_nulls(choice: RandomChoice, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {
        key: None if choice.maybe(0.15) else _with_nulls(choice, item)
        for key, item in value.items()
    }


# --- JSON patches -------------------------------------------------------------------------------


def _pointers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        if path == "/metadata" and key in IDENTITY:
            continue
        step = f"{path}/" + str(key).replace("~", "~0").replace("/", "~1")
        yield step, item
        yield from _pointers(item, step)


_TEXTS = re.compile(r"/(labels|annotations|data|nodeSelector)/[^/]+$")
_CHOSEN = re.compile(r"controller-uid")


def json_patch(choice: RandomChoice, live: Document, donor: Document) -> list[Document]:
    """Return a few operations on an object, most of them valid."""
    content = {key: item for key, item in live.items() if key not in {"apiVersion", "kind"}}
    places = list(_pointers(content))
    texts = [path for path, _ in places if _TEXTS.search(path) and not _CHOSEN.search(path)]
    gifts = list(_pointers(donor))
    operations: list[Document] = []
    for _ in range(choice.number(1, 3)):
        path, value = choice.one(places)
        match choice.weighted(
            {"replace": 4, "remove": 3, "add": 4, "test": 1, "copy": 1, "move": 1, "append": 2}
        ):
            case "remove":
                operations.append({"op": "remove", "path": path})
            case "replace":
                same = [gift for where, gift in gifts if where == path]
                operations.append(
                    {"op": "replace", "path": path, "value": same[0] if same else value}
                )
            case "add":
                where, gift = choice.one(gifts)
                operations.append({"op": "add", "path": where, "value": gift})
            case "test":
                other = choice.one(places)[1] if choice.maybe(0.2) else value
                operations.append({"op": "test", "path": path, "value": other})
            case "append":
                lists = [(where, item) for where, item in gifts if isinstance(item, list) and item]
                if lists:
                    where, items = choice.one(lists)
                    operations.append(
                        {"op": "add", "path": f"{where}/-", "value": choice.one(items)}
                    )
            case operation:
                # Strings only move to strings: a value of another type is always refused.
                if texts:
                    source, target = choice.one(texts), choice.one(texts)
                    operations.append({"op": operation, "from": source, "path": target})
    return operations


# --- strategic merge patches --------------------------------------------------------------------


def strategic_patch(
    choice: RandomChoice, node: SchemaNode, live: Document, donor: Document
) -> Document:
    """Return a patch of parts of another document, with nulls and directives."""
    result: Document = _directed(choice, node, part(choice, node, donor, 0.4), live)
    return result


def _directed(choice: RandomChoice, node: SchemaNode, value: Any, live: Any) -> Any:
    if not isinstance(value, dict):
        return value
    result: Document = {}
    there = live if isinstance(live, dict) else {}
    for key, item in value.items():
        below = child(node, key)
        if choice.maybe(0.08):
            result[key] = None
        elif isinstance(item, list) and "merge" in below.patch_strategy:
            _merged_list(choice, result, key, node=below, items=item, live=there.get(key))
        else:
            result[key] = _directed(choice, below, item, there.get(key))
    if node is not ANY and choice.maybe(0.03):
        if choice.maybe():
            result["$patch"] = choice.one(["replace", "delete", "merge"])
        else:
            result["$retainKeys"] = [key for key in result if not key.startswith("$")]
    return result


def _merged_list(
    choice: RandomChoice,
    result: Document,
    key: str,
    *,
    node: SchemaNode,
    items: list[Any],
    live: Any,
) -> None:
    there = live if isinstance(live, list) else []
    merge_key = node.merge_key
    if not merge_key:
        gone = choice.some([each for each in there if each not in items])
        if gone and choice.maybe():
            result[f"$deleteFromPrimitiveList/{key}"] = gone
        result[key] = items
        if choice.maybe(0.3):
            order = items + [each for each in there if each not in items and each not in gone]
            result[f"$setElementOrder/{key}"] = order
        return
    below = node.items or ANY
    known = {item[merge_key]: item for item in there if merge_key in item}
    patched: list[Any] = []
    for item in items:
        if choice.maybe(0.15):
            patched.append({merge_key: item[merge_key], "$patch": "delete"})
        else:
            patched.append(_directed(choice, below, item, known.get(item[merge_key])))
            patched[-1][merge_key] = item[merge_key]
    for name in choice.some(list(known), 1):
        if choice.maybe(0.3) and all(item.get(merge_key) != name for item in patched):
            patched.append({merge_key: name, "$patch": "delete"})
    if choice.maybe(0.3):
        kept = [item[merge_key] for item in patched if item.get("$patch") != "delete"]
        removed = [item[merge_key] for item in patched if item.get("$patch") == "delete"]
        rest = [name for name in known if name not in kept and name not in removed]
        order = kept + choice.some(rest, least=len(rest))
        if choice.maybe(0.5):
            order = choice.some(order, least=len(order))
            patched.sort(
                key=lambda item: order.index(item[merge_key]) if item[merge_key] in order else -1
            )
        result[f"$setElementOrder/{key}"] = [{merge_key: name} for name in order]
    if choice.maybe(0.04):
        patched.append({"$patch": "replace"})
    result[key] = patched
