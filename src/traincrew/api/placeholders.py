"""Placeholders of examples that were not replaced: ``_EDIT_ME_``, ``<your_etcd_endpoint>``.

The API server refuses them in the fields in which neither can have another meaning. In the other
fields, such as arguments of a program, a job with one fails validation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.api.kind import Rule
from traincrew.api.meta import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

EDIT_ME = "_EDIT_ME_"
"""What the oldest examples have in place of values that users must write."""
PATTERN = rf"{EDIT_ME}|<your[_-][^<>\s]*>"
"""A placeholder, in Go as well."""

NONE_IN_IMAGES = "^[^<>]*$"
"""Pattern of names of images: none of them has one of these characters."""
NONE = Rule(
    rule=f"!self.contains('<') && !self.contains('{EDIT_ME}')",
    message="it has a placeholder of an example: replace it by a value of your own",
)
"""Rule of a text without angle brackets."""


def problems(value: Any, path: str) -> Iterator[Problem]:
    """Yield the fields that have a placeholder, at any depth.

    Args:
        value: Plain data.
        path: Its path; empty for the root of a document.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from problems(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from problems(inner, f"{path}[{index}]")
    elif isinstance(value, str) and (found := re.search(PATTERN, value)) is not None:
        yield Problem(path, f"replace {found[0]} by a value of your own")
