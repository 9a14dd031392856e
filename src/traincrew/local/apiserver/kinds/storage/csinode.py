"""CSINodes: which storage drivers a node has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import age_of, name_of
from traincrew.local.apiserver.kinds.shared.fields import immutable, non_negative
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import qualified_name_faults, subdomain_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

_MAX_NAME = 63
_MAX_NODE_ID = 256


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a CSINode."""
    return [name_of(obj), len(_drivers(obj)), age_of(obj, now)]


def _drivers(obj: Document) -> list[Document]:
    return field(obj, "spec").get("drivers") or []


def _validate(found: list[Cause], obj: Document, old: Document | None) -> None:
    """Validate a CSINode (`ValidateCSINode` and `ValidateCSINodeUpdate` of upstream)."""
    drivers = _drivers(obj)
    names: set[str] = set()
    for index, driver in enumerate(drivers):
        path = f"spec.drivers[{index}]"
        _driver(found, driver, path)
        name = driver.get("name", "")
        if name in names:
            found.append(why.duplicate(f"{path}.name", name))
        names.add(name)
        _topology_keys(found, driver.get("topologyKeys") or [], path)
    for earlier in _drivers(old or {}):
        for driver in drivers:
            if driver.get("name") == earlier.get("name"):
                new, before = _without_limits(driver), _without_limits(earlier)
                immutable(found, "spec.drivers", new, before)


def _driver(found: list[Cause], driver: Document, path: str) -> None:
    name, node_id = driver.get("name", ""), driver.get("nodeID", "")
    if not name:
        found.append(why.required(f"{path}.name", ""))
    else:
        if len(name) > _MAX_NAME:
            found.append(why.too_long(f"{path}.name", _MAX_NAME))
        if fault := subdomain_fault(name.lower()):
            found.append(why.invalid(f"{path}.name", name, fault))
    if not node_id:
        found.append(why.required(f"{path}.nodeID", ""))
    if len(node_id) > _MAX_NODE_ID:
        detail = f"must be {_MAX_NODE_ID} characters or less"
        found.append(why.invalid(f"{path}.nodeID", node_id, detail))
    count = (driver.get("allocatable") or {}).get("count")
    non_negative(found, f"{path}.allocatable.count", count)


def _topology_keys(found: list[Cause], keys: list[str], path: str) -> None:
    known: set[str] = set()
    for key in keys:
        if not key:
            found.append(why.required(path, ""))
        if key in known:
            found.append(why.duplicate(path, key))
        known.add(key)
        found.extend(why.invalid(path, key, fault) for fault in qualified_name_faults(key))


def _without_limits(driver: Document) -> Document:
    """Return a driver without the number of volumes, which may change; as upstream shows it."""
    shown: Document = form("storage.CSINodeDriver", {**driver, "allocatable": None})
    return shown


STRATEGY = Strategy(columns="Name Drivers:integer Age", row=_row, validate=_validate)
