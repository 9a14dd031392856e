"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386).

Where upstream's library (``gopkg.in/evanphx/json-patch`` v4) is more lenient than the standard, so
is this module: ``replace`` creates a missing field, ``copy`` copies a missing field as null, and
negative indices count from the end.
"""

from __future__ import annotations

from typing import Any

from traincrew.local.apiserver.values.codec import clone, decode, encode

__all__ = ["MAX_COPIED_BYTES", "FailedTestError", "PatchError", "json_patch", "merge_patch"]

MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Bytes that the copies of one patch may add; upstream's limit (``JSONPatchMaxCopyBytes``)."""

_MAX_MOVED_ITEMS = 200_000_000

_ABSENT: Any = object()


class PatchError(ValueError):
    """A patch that cannot be applied; the message says why.

    Attributes:
        code: HTTP status upstream answers with: 400, 422, or 500.
    """

    def __init__(self, message: str, *, code: int = 422) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class FailedTestError(PatchError):
    """An operation `test` of a JSON patch fails."""


# --- merge patch --------------------------------------------------------------------------------


def merge_patch(doc: Any, patch: Any) -> Any:
    """Apply a merge patch: null deletes, lists are replaced, objects are merged.

    Returns:
        A new document; unchanged parts are shared.
    """
    if type(patch) is not dict:
        return patch
    result = dict(doc) if type(doc) is dict else {}
    for key, item in patch.items():
        present = result.get(key)
        if item is None:
            result.pop(key, None)
        elif present is None:
            result[key] = _without_nulls(item)
        elif type(present) is dict:
            result[key] = merge_patch(present, item)
        else:
            result[key] = _without_nulls(item)
    return result


def _without_nulls(value: Any) -> Any:
    """Return a value that replaces another: without the nulls of its objects, also in lists."""
    if type(value) is dict:
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [_without_nulls(item) for item in value]
    return value


# --- JSON patch ---------------------------------------------------------------------------------


def json_patch(doc: Any, operations: list[dict[str, Any]]) -> Any:
    """Apply JSON patch operations in order.

    Returns:
        A new document; ``doc`` is not changed.

    Raises:
        PatchError: an operation cannot be applied, or a test fails.
    """
    holder = [clone(doc)]
    costs = _Costs()
    for operation in operations:
        _apply_operation(holder, operation, costs)
    return holder[0]


class _Costs:
    """What the operations of a patch have copied and moved, which is limited."""

    def __init__(self) -> None:
        self._copied = 0
        self._moved = 0

    def copy(self, size: int) -> None:
        """Count the bytes of a copy."""
        self._copied += size
        if self._copied > MAX_COPIED_BYTES:
            raise PatchError(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {MAX_COPIED_BYTES}"
            )

    def move(self, items: int) -> None:
        """Count the items of a list that make place for another one, or close a gap."""
        self._moved += items
        if self._moved > _MAX_MOVED_ITEMS:
            raise PatchError(f"the operations move more than {_MAX_MOVED_ITEMS} items of lists")


def _apply_operation(holder: list[Any], operation: dict[str, Any], costs: _Costs) -> None:
    match operation.get("op"):
        case "add":
            _add(holder[0], _text(operation, "path"), clone(operation.get("value")), costs)
        case "remove":
            _remove(holder[0], _text(operation, "path"), costs)
        case "replace":
            _replace(holder, _text(operation, "path"), clone(operation.get("value")))
        case "move":
            value = _get(holder[0], _text(operation, "from"))
            _remove(holder[0], operation["from"], costs)
            _add(holder[0], _text(operation, "path"), value, costs)
        case "copy":
            data = encode(_get(holder[0], _text(operation, "from")))
            costs.copy(len(data))
            _add(holder[0], _text(operation, "path"), decode(data), costs)
        case "test":
            _test(holder[0], _text(operation, "path"), operation.get("value"))
        case other:
            raise PatchError(f"Unexpected kind: {other if type(other) is str else 'unknown'}")


def _text(operation: dict[str, Any], key: str) -> str:
    value = operation.get(key)
    if type(value) is not str:
        raise PatchError(f"operation lacks {key}: missing value")
    return value


def _resolve(doc: Any, path: str) -> tuple[Any, str]:
    """Return the container a path ends in, and the last step."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
    if len(steps) < 2:
        raise PatchError(f'doc is missing path: "{path}": missing value')
    for step in steps[1:-1]:
        doc = _child(doc, step)
        if type(doc) is not dict and type(doc) is not list:
            raise PatchError(f'doc is missing path: "{path}": missing value')
    return doc, steps[-1]


def _child(container: Any, step: str) -> Any:
    if type(container) is dict:
        return container.get(step)
    return container[_index(step, len(container))]


def _index(step: str, size: int) -> int:
    """Return a list index; negative ones count from the end.

    Raises:
        PatchError: the index is out of range.
    """
    try:
        index = int(step)
    except ValueError:
        raise PatchError(f"value was not a proper array index: '{step}'") from None
    if not -size <= index < size:
        raise PatchError(f"Unable to access invalid index: {step}")
    return index % size


def _get(doc: Any, path: str) -> Any:
    return _child(*_resolve(doc, path))


def _add(doc: Any, path: str, value: Any, costs: _Costs) -> None:
    container, step = _resolve(doc, path)
    if type(container) is dict:
        container[step] = value
    elif step == "-":
        container.append(value)
    else:
        index = _index(step, len(container) + 1)
        costs.move(len(container) - index)
        container.insert(index, value)


def _remove(doc: Any, path: str, costs: _Costs) -> None:
    container, step = _resolve(doc, path)
    if type(container) is list:
        index = _index(step, len(container))
        costs.move(len(container) - index)
        del container[index]
    elif container.pop(step, _ABSENT) is _ABSENT:
        raise PatchError(f"Unable to remove nonexistent key: {step}: missing value")


def _replace(holder: list[Any], path: str, value: Any) -> None:
    if not path:
        if type(value) is not dict and type(value) is not list:
            raise PatchError("replace operation value must be object or array")
        holder[0] = value
        return
    container, step = _resolve(holder[0], path)
    if type(container) is dict:
        container[step] = value
    else:
        container[_index(step, len(container))] = value


def _test(doc: Any, path: str, value: Any) -> None:
    actual = _get(doc, path) if path else doc
    if not _equal(actual, value):
        raise FailedTestError(f"testing value {path} failed: test failed")


def _equal(left: Any, right: Any) -> bool:
    if type(left) is bool or type(right) is bool:
        return left is right
    if type(left) is dict and type(right) is dict:
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)
