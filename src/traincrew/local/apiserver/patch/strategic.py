"""Strategic merge patch: a merge patch that merges the lists of built-in kinds by key.

Semantics and messages: ``k8s.io/apimachinery/pkg/util/strategicpatch``. Directives:

- ``$patch: replace | delete`` in a map, or in an item of a merged list;
- ``$setElementOrder/FIELD``: the order of the items known to the patch's author;
- ``$deleteFromPrimitiveList/FIELD``: values to remove from a merged list of scalars;
- ``$retainKeys``: the only fields a map keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema.node import ANY, SchemaNode
from traincrew.local.apiserver.values.causes import show
from traincrew.local.apiserver.values.codec import clone, encode_sorted
from traincrew.local.apiserver.values.goformat import TYPES, shown

from .json import PatchError

if TYPE_CHECKING:
    from traincrew.local.apiserver.schema import ObjectSchema
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["strategic_merge"]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(doc: Document, patch: Any, schema: ObjectSchema) -> Document:
    """Apply a strategic merge patch.

    Args:
        doc: the document; not changed.
        patch: the patch; not changed.
        schema: of the document's kind, which must be built in.

    Raises:
        PatchError: one of the patch's directives is malformed.
    """
    return _merge_map(clone(doc), clone(patch), schema.node)


def _child(node: SchemaNode, key: str) -> SchemaNode:
    return node.fields.get(key) or node.values or ANY


def _merge_map(original: Document, patch: Document, node: SchemaNode) -> Document:
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            return {key: item for key, item in patch.items() if key != _DIRECTIVE}
        if directive == "delete":
            return {}
        raise _unknown_directive(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _merge_ordered(original, patch, key, node)
    # Deletions come last, so that their position in the patch does not matter.
    for patch_key, value in sorted(patch.items(), key=lambda item: item[0].startswith(_DELETE)):
        deleting = patch_key.startswith(_DELETE)
        key = patch_key.removeprefix(_DELETE)
        if value is None:
            original.pop(key, None)
            continue
        present: Any = original.get(key)
        if key not in original or type(present) is not type(value):
            if not deleting:
                plain = _plain(value)
                if plain is _DROPPED:
                    original.pop(key, None)
                else:
                    original[key] = plain
        elif type(value) is dict:
            child = _child(node, key)
            if "replace" in child.patch_strategy:
                original[key] = value
            else:
                original[key] = _merge_map(present, value, child)
        elif type(value) is list:
            original[key] = _merge_field(present, value, _child(node, key), deleting=deleting)
        else:
            original[key] = value
    return original


def _unknown_directive(patch: Document) -> PatchError:
    directive = shown(patch[_DIRECTIVE])
    return PatchError(f"unknown patch type: {directive} in map: {shown(patch)}", code=500)


def _expected_list(value: Any) -> PatchError:
    actual = TYPES.get(type(value), "%!s(<nil>)")
    return PatchError(f"expected a {TYPES[list]}, but received a {actual}", code=500)


def _merge_field(
    original: list[Any], patch: list[Any], node: SchemaNode, *, deleting: bool
) -> list[Any]:
    if deleting:
        gone = {_comparable(item) for item in patch}
        return [item for item in original if _comparable(item) not in gone]
    if "merge" in node.patch_strategy:
        return _merge_list(original, patch, node)
    return patch


def _comparable(item: Any) -> tuple[type, bytes]:
    return type(item), encode_sorted(item)


_DROPPED: Any = object()


def _plain(value: Any) -> Any:
    """Return a value that has nothing to merge with, without its nulls.

    Other directives stay, as unknown fields, as they do upstream.

    Returns:
        The value, or ``_DROPPED`` when it is a map with ``$patch``: there is nothing to replace or
        delete.
    """
    if type(value) is dict:
        if _DIRECTIVE in value:
            return _DROPPED
        pairs = ((key, _plain(item)) for key, item in value.items() if item is not None)
        return {key: item for key, item in pairs if item is not _DROPPED}
    if type(value) is list:
        return [item for item in map(_plain, value) if item is not _DROPPED]
    return value


def _retain_keys(original: Document, patch: Document) -> None:
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    if type(kept) is not list:
        raise PatchError("invalid patch format of retainKeys", code=400)
    names = {item for item in kept if type(item) is str}
    for key, value in patch.items():
        if value is None or key.startswith((_ORDER, _DELETE)):
            continue
        if key not in names:
            raise PatchError("invalid patch format of retainKeys", code=400)
    for key in [key for key in original if key not in names]:
        del original[key]


# --- lists --------------------------------------------------------------------------------------


def _identity(item: Any, merge_key: str) -> Any:
    """Return what identifies an item: the value of its merge key, or the scalar itself."""
    if merge_key and type(item) is dict:
        if merge_key not in item:
            raise _no_merge_key(item, merge_key)
        return show(item[merge_key])
    return show(item)


def _no_merge_key(item: Document, merge_key: str) -> PatchError:
    text = f"map: {shown(item)} does not contain declared merge key: {merge_key}"
    return PatchError(text, code=500)


def _merge_ordered(original: Document, patch: Document, order_key: str, node: SchemaNode) -> None:
    """Merge one list and order it by its ``$setElementOrder``."""
    order = patch.pop(order_key)
    key = order_key.removeprefix(_ORDER)
    before, change = original.get(key), patch.get(key)
    for each in (order, original.get(key, []), patch.get(key, [])):
        if type(each) is not list:
            raise _expected_list(each)
    child = _child(node, key)
    merge_key = child.merge_key
    if change is not None:
        _check_order(change, order, merge_key)
    if before is None and change is None:
        return
    if not before and not change:
        raise PatchError("no elements in any of the given slices", code=500)
    if change is None:
        merged = before
    elif before is None:
        merged = _plain(change)
    else:
        merged = _merge_field(list(before), change, child, deleting=False)
        if merge_key:
            before = _server_order(before, change, merge_key)
    original[key] = _arrange(merged or [], order, before or [], merge_key)
    patch.pop(key, None)


def _server_order(before: list[Any], change: list[Any], merge_key: str) -> list[Any]:
    """Return the server's order of a list as upstream sees it during the merge.

    Upstream deletes and appends in place: new items take the places that deleted items leave at
    the end.
    """
    deleted = {_identity(item, merge_key) for item in change if item.get(_DIRECTIVE) == "delete"}
    known = {_identity(item, merge_key) for item in before}
    kept = [item for item in before if _identity(item, merge_key) not in deleted]
    added = [
        item
        for item in change
        if _DIRECTIVE not in item and _identity(item, merge_key) not in known
    ]
    return kept + added[: len(before) - len(kept)]


def _check_order(change: list[Any], order: list[Any], merge_key: str) -> None:
    """Check that every item the patch sets is in the order list, in the same order."""
    if not order or not change:
        return
    pending = [
        item for item in change if not (type(item) is dict and item.get(_DIRECTIVE) == "delete")
    ]
    pending.reverse()
    for known in order:
        while pending and type(pending[-1]) is dict and _DIRECTIVE in pending[-1]:
            pending.pop()
        if pending and _identity(pending[-1], merge_key) == _identity(known, merge_key):
            pending.pop()
    if pending:
        raise PatchError(
            f"The order in patch list:\n{shown(change)}\n doesn't match "
            f"{_ORDER.removesuffix('/')} list:\n{shown(order)}\n",
            code=500,
        )


def _merge_list(original: list[Any], patch: list[Any], node: SchemaNode) -> list[Any]:
    if not original and not patch:
        return original
    kinds = {type(item) for item in (*original, *patch)}
    if list in kinds:
        raise PatchError("lists of lists are not supported")
    if len(kinds) > 1:
        both = f"[{shown(original)} {shown(patch)}]"
        raise PatchError(f"list element types are not identical: {both}", code=500)
    if dict not in kinds:
        merged = list({show(item): item for item in (*original, *patch)}.values())
        return _arrange(merged, patch, original, "")
    merge_key = node.merge_key
    if not merge_key:
        raise PatchError("cannot merge lists without merge key for struct", code=500)
    original, patch = _special_items(original, patch, merge_key)
    merged = list(original)
    positions: dict[str, int] = {}
    for index, item in enumerate(merged):
        positions.setdefault(_identity(item, merge_key), index)
    items = node.items or ANY
    for item in patch:
        name = _identity(item, merge_key)
        index = positions.get(name, -1)
        if index >= 0:
            merged[index] = _merge_map(merged[index], clone(item), items)
        else:
            positions[name] = len(merged)
            merged.append(item)
    return _arrange(merged, patch, original, merge_key)


def _special_items(
    original: list[Any], patch: list[Any], merge_key: str
) -> tuple[list[Any], list[Any]]:
    """Apply the items that carry ``$patch``; return what is left of both lists."""
    rest: list[Any] = []
    gone: set[str] = set()
    replace = False
    for item in patch:
        directive = item.get(_DIRECTIVE)
        if directive is None:
            rest.append(item)
        elif directive == "delete":
            if merge_key not in item:
                raise _no_merge_key(item, merge_key)
            gone.add(show(item[merge_key]))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch", code=500)
        else:
            raise _unknown_directive(item)
    if replace:
        return rest, []
    if gone:
        original = [each for each in original if _identity(each, merge_key) not in gone]
    return original, rest


def _arrange(
    merged: list[Any], patch_order: list[Any], server_order: list[Any], merge_key: str
) -> list[Any]:
    """Order a merged list: items the patch knows in its order, others where the server had them."""
    patch_index = _positions(patch_order, merge_key)
    server_index = _positions(server_order, merge_key)
    ours: list[tuple[int, Any, Any]] = []
    theirs: list[tuple[int, Any, Any]] = []
    for item in merged:
        name = _identity(item, merge_key)
        if name in patch_index:
            ours.append((patch_index[name], name, item))
        else:
            theirs.append((server_index.get(name, -1), name, item))
    ours.sort(key=lambda entry: entry[0])
    theirs.sort(key=lambda entry: entry[0])
    result: list[Any] = []
    ours.reverse()
    for _, name, item in theirs:
        here = server_index.get(name, -1)
        while ours:
            there = server_index.get(ours[-1][1], -1)
            if 0 <= here < there:
                break
            result.append(ours.pop()[2])
        result.append(item)
    ours.reverse()
    return result + [item for _, _, item in ours]


def _positions(order: list[Any], merge_key: str) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for index, item in enumerate(order):
        if type(item) is dict and _DIRECTIVE in item:
            continue
        found.setdefault(_identity(item, merge_key), index)
    return found
