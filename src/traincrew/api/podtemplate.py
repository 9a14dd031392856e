"""Pod templates as users write them."""

from __future__ import annotations

from typing import Any


def with_named_container(template: dict[str, Any], name: str) -> dict[str, Any]:
    """Name a single unnamed container; with several containers nothing is named.

    The schema default does the same at admission; this is for objects that were stored without the
    schema.
    """
    containers = template.get("spec", {}).get("containers", [])
    if len(containers) != 1 or containers[0].get("name"):
        return template
    named = [{**containers[0], "name": name}]
    return {**template, "spec": {**template["spec"], "containers": named}}
