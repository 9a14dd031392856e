"""Rules of Roles: what they permit, and whether some cover others. Pure.

Rules: ``pkg/apis/rbac/v1/evaluation_helpers.go`` and ``auth/rbac/validation/policy_comparator.go``
of Kubernetes.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.values.causes import quote
from traincrew.local.apiserver.values.documents import items

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.local.apiserver.values.documents import Document

    from .attributes import Attributes

__all__ = ["EVERYTHING", "Rule", "TooManyRulesError", "describe", "missing", "rules_of"]

# Comparisons of single permissions; some 0.2 s.
_MAX_COMPARISONS = 200_000
# Single permissions; a message may have to name them all.
_MAX_PERMISSIONS = 10_000


class TooManyRulesError(Exception):
    """Rules that grant too many single permissions to compare them."""


class Rule(NamedTuple):
    """One rule of a Role."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, attributes: Attributes) -> bool:
        """Return whether the rule permits an action."""
        if not _has(self.verbs, attributes.verb):
            return False
        if not attributes.is_resource:
            return any(_url_covers(url, attributes.path) for url in self.urls)
        return (
            _has(self.groups, attributes.group)
            and self._has_resource(attributes.resource, attributes.subresource)
            and (not self.names or attributes.name in self.names)
        )

    def _has_resource(self, resource: str, subresource: str) -> bool:
        if not subresource:
            return _has(self.resources, resource)
        return (
            _has(self.resources, f"{resource}/{subresource}")
            or f"*/{subresource}" in self.resources
        )

    def covers(self, single: Rule) -> bool:
        """Return whether everything that a single permission permits is permitted by this rule."""
        if not _has(self.verbs, single.verbs[0]):
            return False
        if single.urls:
            return any(_url_covers(url, single.urls[0]) for url in self.urls)
        resource, slash, subresource = single.resources[0].partition("/")
        return (
            _has(self.groups, single.groups[0])
            and self._has_resource(resource, subresource if slash else "")
            and (not self.names or (bool(single.names) and single.names[0] in self.names))
        )

    def size(self) -> int:
        """Return the number of single permissions."""
        resources = len(self.groups) * len(self.resources) * max(1, len(self.names))
        return len(self.verbs) * (resources + len(self.urls))

    def singles(self) -> Iterable[Rule]:
        """Yield rules of one verb each, on one resource (and name) or URL."""
        for group, resource, verb in product(self.groups, self.resources, self.verbs):
            for name in self.names or ("",):
                yield Rule((verb,), (group,), (resource,), (name,) if name else ())
        for url, verb in product(self.urls, self.verbs):
            yield Rule((verb,), urls=(url,))


EVERYTHING = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))
"""What the role ``cluster-admin`` permits."""


def _has(granted: Sequence[str], wanted: str) -> bool:
    return wanted in granted or "*" in granted


def _url_covers(granted: str, path: str) -> bool:
    return granted == path or (granted[-1:] == "*" and path.startswith(granted.rstrip("*")))


def rules_of(document: Document) -> tuple[Rule, ...]:
    """Return the rules of a Role or ClusterRole."""
    return tuple(
        Rule(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
        )
        for rule in items(document, "rules")
    )


def missing(owned: Sequence[Rule], wanted: Sequence[Rule]) -> list[Rule]:
    """Return the single permissions of `wanted` that `owned` does not cover.

    Raises:
        TooManyRulesError: they are too many to be compared.
    """
    size = sum(rule.size() for rule in wanted)
    if size > _MAX_PERMISSIONS or size * len(owned) > _MAX_COMPARISONS:
        raise TooManyRulesError
    return [
        single
        for rule in wanted
        for single in rule.singles()
        if not any(each.covers(single) for each in owned)
    ]


def describe(singles: Iterable[Rule]) -> str:
    """Return single permissions as messages show them, the verbs of a resource in one line."""
    verbs: dict[Rule, list[str]] = {}
    lines = set()
    for single in singles:
        if single.urls:
            lines.add(_line(single))
        else:
            verbs.setdefault(single._replace(verbs=()), []).extend(single.verbs)
    lines.update(_line(rule._replace(verbs=tuple(found))) for rule, found in verbs.items())
    return "\n".join(sorted(lines))


def _line(rule: Rule) -> str:
    parts = [
        f"{name}:[{' '.join(map(quote, values))}]"
        for name, values in (
            ("APIGroups", rule.groups),
            ("Resources", rule.resources),
            ("NonResourceURLs", rule.urls),
            ("ResourceNames", rule.names),
            ("Verbs", rule.verbs),
        )
        if values
    ]
    return f"{{{', '.join(parts)}}}"
