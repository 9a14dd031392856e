"""Invalid manifests: a valid one with one thing wrong in it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from traincrew.engine.errors import ApiError

ABSENT = object()
"""Value of a field that is removed."""


class Broken(NamedTuple):
    """A manifest with one thing wrong in it.

    Attributes:
        base: The valid manifest.
        path: The field, with slashes; numbers are places in lists. Missing parents are added.
        value: Its new value.
        says: Texts that the error has to contain: the field, and the fix.
    """

    base: dict[str, Any]
    path: str
    value: Any
    says: tuple[str, ...]

    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        document = copy.deepcopy(self.base)
        *parents, last = self.path.split("/")
        node: Any = document
        for name in parents:
            node = node[int(name)] if isinstance(node, list) else node.setdefault(name, {})
        if self.value is ABSENT:
            del node[last]
        elif isinstance(node, list):
            node[int(last)] = copy.deepcopy(self.value)
        else:
            node[last] = copy.deepcopy(self.value)
        return document

    @property
    def title(self) -> str:
        """The name of the test."""
        value = "absent" if self.value is ABSENT else str(self.value)
        return f"{self.path.removeprefix('spec/')}={value}"[:80]

    def check_refusal(self, refused: ApiError) -> None:
        """Check that the API server refuses the manifest for the right reason."""
        assert refused.code in {400, 422}
        for text in self.says:
            assert text in refused.message
