"""The built-in kinds, for tests of one aspect of them."""

from functools import cache
from typing import Any

from traincrew.local.apiserver.kinds.builtin import builtin_resources
from traincrew.local.apiserver.kinds.strategy import ResourceType, Strategy

__all__ = ["custom_resource", "default", "default_after_uid", "resource_of", "strategy_of"]


@cache
def _resources() -> dict[tuple[str, str], ResourceType]:
    return {(each.group, each.kind): each for each in builtin_resources()}


def resource_of(group: str, kind: str) -> ResourceType:
    """Return a resource of a built-in kind."""
    return _resources()[group, kind]


def strategy_of(group: str, kind: str) -> Strategy:
    """Return the strategy of a built-in kind; a neutral one for any other."""
    found = _resources().get((group, kind))
    return found.strategy if found is not None else Strategy()


def custom_resource(**version: Any) -> ResourceType:
    """Return a custom resource; the arguments are fields of its version."""
    return ResourceType("t.io", "v1", "ts", "T", custom=version)


def default(group: str, kind: str, obj: dict[str, Any]) -> None:
    """Fill in the static defaults, in place."""
    strategy = strategy_of(group, kind)
    if strategy.default is not None:
        strategy.default(obj)


def default_after_uid(group: str, kind: str, obj: dict[str, Any]) -> None:
    """Fill in the defaults that need the name and UID of a new object, in place."""
    strategy = strategy_of(group, kind)
    if strategy.default_after_uid is not None:
        strategy.default_after_uid(obj)
