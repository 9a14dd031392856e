"""Pod templates as users write them."""

from __future__ import annotations

from typing import Any


def completed(template: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the template as plans read it: a single unnamed container named, ports with protocol.

    The schema has no defaults in lists, because a default that nobody wrote is a difference between
    a manifest and what is stored. Earlier schemas had these two. So the templates of jobs that they
    completed, and their fingerprints, are the same as those of their manifests.

    Args:
        template: As stored. One that is not a template is returned as it is.
        name: The name of a single unnamed container; of several, none is named.
    """
    pod = template.get("spec")
    if not isinstance(pod, dict):
        return template
    changes = {
        group: [_with_protocols(container) for container in containers]
        for group in ("initContainers", "containers")
        if isinstance(containers := pod.get(group), list)
    }
    match changes.get("containers"):
        case [dict() as only] if not only.get("name"):
            changes["containers"] = [{**only, "name": name}]
    return {**template, "spec": {**pod, **changes}}


def _with_protocols(container: Any) -> Any:
    ports = container.get("ports") if isinstance(container, dict) else None
    if not isinstance(ports, list):
        return container
    found = [{"protocol": "TCP", **port} if isinstance(port, dict) else port for port in ports]
    return {**container, "ports": found}


def has_container(template: str, name: str) -> str:
    """Return a CEL expression that tells whether a container of a template has a name.

    It is true for a single unnamed one, which gets this name.

    Args:
        template: CEL expression of the template.
        name: The name.
    """
    return f"{template}.spec.containers.exists(c, !has(c.name) || c.name == '{name}')"
