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
