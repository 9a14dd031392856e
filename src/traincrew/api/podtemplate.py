"""Pod templates as users write them."""

from __future__ import annotations

from typing import Any


def with_named_container(template: dict[str, Any], name: str) -> dict[str, Any]:
    """Name a single unnamed container; with several containers nothing is named.

    A template that is not one is returned as it is.
    """
    pod = template.get("spec")
    containers = pod.get("containers") if isinstance(pod, dict) else None
    if not isinstance(containers, list) or len(containers) != 1:
        return template
    if not isinstance(containers[0], dict) or containers[0].get("name"):
        return template
    named = [{**containers[0], "name": name}]
    return {**template, "spec": {**template["spec"], "containers": named}}


def has_container(template: str, name: str) -> str:
    """Return a CEL expression that tells whether a container of a template has a name.

    It is true for a single unnamed one, which gets this name.

    Args:
        template: CEL expression of the template.
        name: The name.
    """
    return f"{template}.spec.containers.exists(c, !has(c.name) || c.name == '{name}')"
