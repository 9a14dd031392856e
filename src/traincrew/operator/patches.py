"""JSON patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def json_patch(values: Mapping[tuple[str, ...], Any], version: str) -> list[dict[str, Any]]:
    """Return a JSON patch (RFC 6902) that replaces whole fields of one version of an object.

    Args:
        values: New values by path; None removes the field.
        version: The ``resourceVersion`` the object must still have; else the API responds with 409.
    """
    # A failed "test" operation gives 422, as an invalid patch does; a different resourceVersion
    # gives a conflict. Versions are never reused, so this also distinguishes objects of one name.
    operations: list[dict[str, Any]] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    ]
    for path, value in values.items():
        pointer = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
        if value is None:
            operations.append({"op": "remove", "path": pointer})
        else:
            operations.append({"op": "add", "path": pointer, "value": value})
    return operations
