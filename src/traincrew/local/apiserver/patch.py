"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386).

Texts of errors are those of ``gopkg.in/evanphx/json-patch``, which upstream answers with.
"""

from __future__ import annotations

from typing import Any

from .codec import clone

__all__ = ["PatchError", "json_patch", "merge_patch"]

_MAX_OPERATIONS = 10_000


class PatchError(ValueError):
    """A patch that cannot be applied.

    Attributes:
        invalid: the patch is well formed but does not fit the object (HTTP 422); otherwise it
            makes no sense by itself (HTTP 400).
    """

    def __init__(self, message: str, *, invalid: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.invalid = invalid


def merge_patch(doc: Any, patch: Any) -> Any:
    """Lay a merge patch over a document: null deletes, lists are replaced, objects merge.

    Returns:
        A new document; unchanged parts are shared.
    """
    if type(patch) is not dict:
        return patch
    result = dict(doc) if type(doc) is dict else {}
    for key, item in patch.items():
        if item is None:
            result.pop(key, None)
        elif type(item) is dict:
            result[key] = merge_patch(result.get(key), item)
        else:
            result[key] = item
    return result


def json_patch(doc: Any, operations: Any) -> Any:
    """Apply JSON patch operations in order.

    Returns:
        A new document; ``doc`` is not changed.

    Raises:
        PatchError: an operation is malformed, does not fit, or a test fails.
    """
    if type(operations) is not list:
        raise PatchError("cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(operations) > _MAX_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
    holder = {"": clone(doc)}
    for operation in operations:
        if type(operation) is not dict:
            raise PatchError("a JSON patch is a list of objects with op and path")
        _operate(holder, operation)
    return holder[""]


def _operate(holder: dict[str, Any], operation: dict[str, Any]) -> None:
    name = operation.get("op")
    path = operation.get("path")
    if type(path) is not str:
        raise PatchError(f"{name} operation lacks path: missing value")
    if name in ("add", "replace", "test"):
        if "value" not in operation and name != "test":
            raise PatchError(f"{name} operation lacks value: missing value")
        value = operation.get("value")
        if name == "add":
            _add(holder, path, clone(value), "add")
        elif name == "replace":
            _replace(holder, path, clone(value))
        else:
            _test(holder, path, value)
    elif name == "remove":
        _remove(holder, path)
    elif name in ("move", "copy"):
        source = operation.get("from")
        if type(source) is not str:
            raise PatchError(f"{name} operation lacks from: missing value")
        value = _get(holder, source, name)
        if name == "move":
            if path.startswith(source + "/"):
                raise PatchError(
                    f"move operation: {source} cannot be moved into itself", invalid=True
                )
            _remove(holder, source)
        _add(holder, path, clone(value), name)
    else:
        raise PatchError(f"Unexpected kind: {name if name is not None else 'unknown'}")


def _steps(holder: dict[str, Any], path: str, name: str) -> tuple[Any, str]:
    """The container a path ends in, and the last step."""
    if path and not path.startswith("/"):
        raise PatchError(f'{name} operation does not apply: path "{path}" must start with "/"')
    steps = [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
    target: Any = holder
    for step in steps[:-1]:
        target = _child(target, step, path, name)
        if type(target) is not dict and type(target) is not list:
            raise _missing_path(path, name)
    return target, steps[-1]


def _missing_path(path: str, name: str) -> PatchError:
    return PatchError(
        f'{name} operation does not apply: doc is missing path: "{path}": missing value',
        invalid=True,
    )


def _missing_key(path: str, name: str) -> PatchError:
    return PatchError(
        f"{name} operation does not apply: doc is missing key: {path}: missing value", invalid=True
    )


def _index(step: str, path: str, name: str, *, end: int) -> int:
    try:
        index = int(step)
    except ValueError:
        raise PatchError(
            f"{name} operation does not apply: value was not a proper array index: '{step}'",
            invalid=True,
        ) from None
    if index < 0:
        index += end + 1 if name in ("add", "copy", "move") else end
    if not 0 <= index < end + (name in ("add", "copy", "move")):
        raise PatchError(
            f"{name} operation does not apply: Unable to access invalid index: {step}: "
            f"invalid index referenced (path {path})",
            invalid=True,
        )
    return index


def _child(target: Any, step: str, path: str, name: str) -> Any:
    if type(target) is dict:
        if step not in target:
            raise _missing_path(path, name)
        return target[step]
    index = _index(step, path, "get", end=len(target))
    return target[index]


def _get(holder: dict[str, Any], path: str, name: str) -> Any:
    target, step = _steps(holder, path, name)
    if type(target) is dict and step not in target:
        raise _missing_key(path, name)
    return _child(target, step, path, name)


def _add(holder: dict[str, Any], path: str, value: Any, name: str) -> None:
    target, step = _steps(holder, path, name)
    if type(target) is dict:
        target[step] = value
    elif step == "-":
        target.append(value)
    else:
        target.insert(_index(step, path, name, end=len(target)), value)


def _replace(holder: dict[str, Any], path: str, value: Any) -> None:
    target, step = _steps(holder, path, "replace")
    if type(target) is dict:
        if step not in target:
            raise _missing_key(path, "replace")
        target[step] = value
    else:
        target[_index(step, path, "replace", end=len(target))] = value


def _remove(holder: dict[str, Any], path: str) -> None:
    target, step = _steps(holder, path, "remove")
    if type(target) is dict:
        if step not in target or not path:
            raise PatchError(
                f'remove operation does not apply: Unable to remove nonexistent key: "{step}": '
                "missing value",
                invalid=True,
            )
        del target[step]
    else:
        del target[_index(step, path, "remove", end=len(target))]


def _equal(left: Any, right: Any) -> bool:
    if type(left) is bool or type(right) is bool:
        return left is right
    if type(left) is dict and type(right) is dict:
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _test(holder: dict[str, Any], path: str, value: Any) -> None:
    target, step = _steps(holder, path, "test")
    absent_is_null = type(target) is dict
    actual = target.get(step) if absent_is_null else _child(target, step, path, "test")
    if not _equal(actual, value):
        raise PatchError(f"testing value {path} failed: test failed", invalid=True)
