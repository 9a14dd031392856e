"""The built-in kinds: the resources of the folders of all API groups.

Kinds without a controller here (Ingress, NetworkPolicy and so on) are stored and
served as well, so that manifests with such objects can be created, listed and deleted.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from traincrew.local.apiserver import kinds

if TYPE_CHECKING:
    from .strategy import ResourceType

__all__ = ["builtin_resources"]

# What kinds share.
_SHARED = frozenset({"podspec", "shared"})
# The order in which discovery lists the groups; the others follow by name.
_FIRST_GROUPS = ("", "apps", "autoscaling", "batch")


def builtin_resources() -> list[ResourceType]:
    """Return all built-in resources, in the order in which discovery lists their groups."""
    found: list[ResourceType] = []
    for folder in iter_modules(kinds.__path__):
        if folder.ispkg and folder.name not in _SHARED:
            found += import_module(f"{kinds.__name__}.{folder.name}").RESOURCES
    return sorted(found, key=_place)


def _place(resource: ResourceType) -> tuple[int, str, str]:
    known = resource.group in _FIRST_GROUPS
    first = _FIRST_GROUPS.index(resource.group) if known else len(_FIRST_GROUPS)
    return (first, resource.group, resource.plural)
