"""Pod templates as users write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def main_container(containers: Iterable[str], named: Collection[str]) -> int:
    """Return the index of the container whose exit is that of the pod's program.

    It is the container that the contract of the kind names, else the first one. Init containers and
    sidecars among them (``restartPolicy: Always``) are never it, and a further container only if it
    has the name: what helps a program does not decide how the program ended.

    Args:
        containers: The names in ``spec.containers``, in order.
        named: `traincrew.api.kind.Kind.containers` of the kind.
    """
    return next((index for index, name in enumerate(containers) if name in named), 0)


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
