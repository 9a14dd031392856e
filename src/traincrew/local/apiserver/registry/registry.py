"""The served resources: built-in ones and those that CustomResourceDefinitions add."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["Registry", "version_order"]


def version_order(version: str) -> tuple[int, int, int, str]:
    """Return a sort key that orders versions by preference (v2, v1, v1beta2, v1alpha1)."""
    digits = ""
    rest = version.removeprefix("v")
    while rest and rest[0].isdigit():
        digits += rest[0]
        rest = rest[1:]
    if not version.startswith("v") or not digits:
        return (3, 0, 0, version)
    if not rest:
        return (0, -int(digits), 0, "")
    for rank, word in ((1, "beta"), (2, "alpha")):
        number = rest.removeprefix(word)
        if number != rest and number.isdigit():
            return (rank, -int(digits), -int(number), "")
    return (3, 0, 0, version)


class Registry:
    """The served resources; changes with the CustomResourceDefinitions.

    Attributes:
        generation: rises with every change; caches of derived documents are keyed by it.
    """

    def __init__(self, builtins: Iterable[ResourceType]) -> None:
        self._types: dict[tuple[str, str, str], ResourceType] = {}
        self._builtin_groups: list[str] = []
        self.generation = 0
        for resource in builtins:
            self._types[resource.group, resource.version, resource.plural] = resource
            if resource.group not in self._builtin_groups:
                self._builtin_groups.append(resource.group)

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """Return the resource that a path names; None if it is not served."""
        return self._types.get((group, version, plural))

    def __iter__(self) -> Iterator[ResourceType]:
        return iter(self._types.values())

    def replace_group_resource(
        self, group: str, plural: str, versions: Iterable[ResourceType]
    ) -> None:
        """Serve exactly these versions of a resource; without any, stop serving it."""
        for key in [key for key in self._types if key[0] == group and key[2] == plural]:
            del self._types[key]
        for resource in versions:
            self._types[group, resource.version, plural] = resource
        self.generation += 1

    def groups(self) -> dict[str, dict[str, list[ResourceType]]]:
        """Return all resources by group and version, both in order of preference."""
        groups: dict[str, dict[str, list[ResourceType]]] = {
            group: {} for group in self._builtin_groups
        }
        for resource in self._types.values():
            groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
        order = [name for name in groups if name in self._builtin_groups]
        order += sorted(name for name in groups if name not in self._builtin_groups)
        return {
            name: dict(sorted(groups[name].items(), key=lambda item: version_order(item[0])))
            for name in order
            if groups[name]
        }

    def by_kind(self, group: str, kind: str) -> list[ResourceType]:
        """Return the versions of a kind, the preferred one first."""
        found = [
            resource
            for resource in self._types.values()
            if resource.group == group and resource.kind == kind
        ]
        return sorted(found, key=lambda resource: version_order(resource.version))
