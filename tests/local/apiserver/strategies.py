"""The strategies of the built-in kinds, for tests of one aspect of them."""

from functools import cache

from traincrew.local.apiserver.kinds.builtin import builtin_resources
from traincrew.local.apiserver.kinds.strategy import Strategy

__all__ = ["strategy_of"]


@cache
def _strategies() -> dict[tuple[str, str], Strategy]:
    return {(each.group, each.kind): each.strategy for each in builtin_resources()}


def strategy_of(group: str, kind: str) -> Strategy:
    """Return the strategy of a built-in kind; a neutral one for any other."""
    return _strategies().get((group, kind)) or Strategy()
