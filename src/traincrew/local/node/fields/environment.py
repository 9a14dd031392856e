"""The environment and the command of a container. Pure.

The rules are those of upstream's `kubelet_pods.go` (makeEnvironmentVariables) and
`expansion/expand.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from traincrew.local.node.fields.downward import PodFacts, field_value, resource_value
from traincrew.local.node.fields.references import Reference, Sources

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject

__all__ = [
    "NoCommandError",
    "api_variables",
    "command_line",
    "container_environment",
    "expand",
    "service_variables",
]

Document = Mapping[str, Any]


class NoCommandError(Exception):
    """Neither the container nor its image names a command."""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; `$$` stands for `$`, and unknown names stay as they are."""
    if "$" not in text:
        return text
    result = []
    position = 0
    while (dollar := text.find("$", position)) >= 0 and dollar + 1 < len(text):
        result.append(text[position:dollar])
        following = text[dollar + 1]
        if following == "$":
            result.append("$")
            position = dollar + 2
        elif following == "(" and (end := text.find(")", dollar)) > 0:
            name = text[dollar + 2 : end]
            result.append(variables.get(name, text[dollar : end + 1]))
            position = end + 1
        else:
            result.append("$" + following)
            position = dollar + 2
    result.append(text[position:])
    return "".join(result)


def api_variables(address: str, port: int) -> dict[str, str]:
    """Return the variables by which clients in pods find the API server.

    They name the server itself, not its Service: not every user may listen on port 443.
    """
    return {
        "KUBERNETES_SERVICE_HOST": address,
        "KUBERNETES_SERVICE_PORT": str(port),
        "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
        "KUBERNETES_PORT": f"tcp://{address}:{port}",
    }


def service_variables(
    services: Iterable[AnyObject], namespace: str, *, links: bool = True
) -> dict[str, str]:
    """Return the variables that describe the Services of a namespace (`enableServiceLinks`).

    The Service `kubernetes` is omitted; `api_variables` names the API server.
    """
    variables: dict[str, str] = {}
    if not links:
        return variables
    for service in services:
        address = service.spec.get("clusterIP") or ""
        ports = service.spec.get("ports") or []
        if service.metadata.namespace != namespace or address in {"", "None"} or not ports:
            continue
        if service.metadata.name == "kubernetes" and namespace == "default":
            continue
        prefix = service.metadata.name.upper().replace("-", "_").replace(".", "_")
        variables[f"{prefix}_SERVICE_HOST"] = address
        variables[f"{prefix}_SERVICE_PORT"] = str(ports[0]["port"])
        for number, port in enumerate(ports):
            protocol = port.get("protocol", "TCP")
            if port.get("name"):
                name = port["name"].upper().replace("-", "_")
                variables[f"{prefix}_SERVICE_PORT_{name}"] = str(port["port"])
            url = f"{protocol.lower()}://{address}:{port['port']}"
            if number == 0:
                variables[f"{prefix}_PORT"] = url
            link = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
            variables[link] = url
            variables[f"{link}_PROTO"] = protocol.lower()
            variables[f"{link}_PORT"] = str(port["port"])
            variables[f"{link}_ADDR"] = address
    return variables


def container_environment(
    facts: PodFacts,
    container: Document,
    sources: Sources,
    *,
    image: Mapping[str, str],
    services: Mapping[str, str],
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """Return all variables of a container.

    Args:
        facts: The pod.
        container: The container of its spec.
        sources: The ConfigMaps and Secrets `references.env_references` names.
        image: Variables of the node and the image; all others override them.
        services: See `service_variables`.
        overrides: Override all others, also where a later entry refers to them.

    Raises:
        MissingReferenceError: A ConfigMap, Secret or key is missing and not optional.
        FieldError: A field or resource reference is invalid.
    """
    own: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix", "")
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if not (reference := source.get(field)):
                continue
            values = sources.values(
                Reference(kind, reference.get("name", "")),
                optional=bool(reference.get("optional")),
            )
            for key, value in (values or {}).items():
                if key and "=" not in key:
                    own[prefix + key] = _text(value)
    for variable in container.get("env") or ():
        known = {**services, **own, **overrides}
        computed = _variable(facts, container, sources, variable, known)
        if computed is not None:
            own[variable["name"]] = computed
    return {**image, **services, **own, **overrides}


def _variable(
    facts: PodFacts, container: Document, sources: Sources, variable: Document, known: Document
) -> str | None:
    """Return the value of one entry of `env`; None for one that is optional and missing."""
    origin = variable.get("valueFrom") or {}
    if reference := origin.get("fieldRef"):
        return field_value(facts, reference["fieldPath"])
    if reference := origin.get("resourceFieldRef"):
        return resource_value(facts, reference, container)
    for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
        if reference := origin.get(field):
            value = sources.value(
                Reference(kind, reference.get("name", "")),
                reference["key"],
                optional=bool(reference.get("optional")),
            )
            return None if value is None else _text(value)
    return expand(str(variable.get("value") or ""), known)


def _text(value: bytes) -> str:
    # An environment cannot hold NUL, and container runtimes require UTF-8.
    return value.replace(b"\0", b"").decode("utf-8", "replace")


def command_line(
    container: Document,
    variables: Mapping[str, str],
    *,
    image_command: list[str],
    image_arguments: list[str],
) -> list[str]:
    """Return the command line: `command` and `args`, or the image's entrypoint and arguments.

    Raises:
        NoCommandError: Neither the container nor its image names a command.
    """
    command = [expand(part, variables) for part in container.get("command") or ()]
    arguments = [expand(part, variables) for part in container.get("args") or ()]
    if not command:
        command = list(image_command)
        arguments = arguments or list(image_arguments)
    if not command + arguments:
        raise NoCommandError(
            "no command specified: give the container a command, or its image's environment a "
            "default one in the catalog"
        )
    return command + arguments
