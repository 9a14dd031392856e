"""The built-in kinds: the strategy of every module in the folders of API groups.

Kinds without a controller here (Ingress, NetworkPolicy, CronJob and so on) are stored and
served as well, so that manifests with such objects can be created, listed and deleted.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from traincrew.local.apiserver import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .strategy import ResourceType, Strategy

__all__ = ["builtin_resources", "strategies"]

# What kinds share.
_SHARED = frozenset({"podspec", "shared"})
# The order in which discovery lists the groups; the others follow by name.
_FIRST_GROUPS = ("", "apps", "autoscaling", "batch")


def strategies() -> Iterator[Strategy]:
    """Yield the strategy of each built-in kind."""
    for group in iter_modules(kinds.__path__, f"{kinds.__name__}."):
        if not group.ispkg or group.name.rpartition(".")[2] in _SHARED:
            continue
        folder = import_module(group.name).__path__
        for module in iter_modules(folder, f"{group.name}."):
            strategy = getattr(import_module(module.name), "STRATEGY", None)
            if strategy is not None:
                yield strategy


def builtin_resources() -> list[ResourceType]:
    """Return all built-in resources, in the order in which discovery lists their groups."""
    found = [resource for strategy in strategies() for resource in strategy.resources]
    return sorted(found, key=_place)


def _place(resource: ResourceType) -> tuple[int, str, str]:
    known = resource.group in _FIRST_GROUPS
    first = _FIRST_GROUPS.index(resource.group) if known else len(_FIRST_GROUPS)
    return (first, resource.group, resource.plural)
