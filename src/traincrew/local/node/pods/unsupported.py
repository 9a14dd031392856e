"""The fields of pods and Services that have no effect here, in one table. Pure.

Each pod that sets some of them gets one Warning event `NotEmulated` naming the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.node.containers.privileges import DEFAULT, names_of
from traincrew.local.node.machine.gpus import RESOURCES
from traincrew.local.node.network.hostports import is_served
from traincrew.local.node.volumes.payloads import is_api_volume

if TYPE_CHECKING:
    from traincrew.local.node.machine.isolation import Isolation

__all__ = [
    "Unsupported",
    "unsupported",
    "unsupported_ephemeral",
    "unsupported_service",
]

Document = Mapping[str, Any]


class Unsupported(NamedTuple):
    """A field without effect, and what happens instead."""

    field: str
    why: str


_Rule = Callable[[Any], bool]


def _set(value: Any) -> bool:
    return bool(value)


# Fields of `spec`.
_POD: dict[str, tuple[str, _Rule]] = {
    "hostUsers": (
        "user namespaces are an implementation detail here",
        lambda value: value is False,
    ),
    "hostPID": ("containers see their own processes only", _set),
    "hostIPC": ("containers have their own System V IPC", _set),
    "shareProcessNamespace": ("each container sees its own processes only", _set),
    "runtimeClassName": ("there is one way to run pods here", _set),
    "overhead": ("nothing is reserved for it", _set),
    "resourceClaims": ("there are no device drivers", _set),
}
# Fields of `spec.securityContext` and of a container's.
_SECURITY: dict[str, tuple[str, _Rule]] = {
    "privileged": ("containers have the rights of the user who runs the cluster", _set),
    "seLinuxOptions": ("no SELinux label is set", _set),
    "appArmorProfile": (
        "no profile is loaded",
        lambda value: (value or {}).get("type", "Unconfined") != "Unconfined",
    ),
    "seccompProfile": (
        "no profile is loaded",
        lambda value: (value or {}).get("type", "Unconfined") != "Unconfined",
    ),
    "windowsOptions": ("this is not Windows", _set),
    "sysctls": ("kernel settings are the machine's", _set),
}
_CONTAINER: dict[str, tuple[str, _Rule]] = {
    "volumeDevices": ("there are no block devices", _set),
    "restartPolicyRules": ("the container's restartPolicy alone decides", _set),
    "resizePolicy": (
        "resources of a running container do not change",
        lambda value: any(each.get("restartPolicy") != "NotRequired" for each in value or ()),
    ),
}
_EPHEMERAL = "ephemeralContainers"
_VOLUMES = ("emptyDir", "ephemeral", "hostPath", "image", "persistentVolumeClaim")


def unsupported(pod: Document, isolation: Isolation) -> list[Unsupported]:
    """Return the fields of a pod's specification that have no effect."""
    spec: Document = pod.get("spec") or {}
    return [
        *_table("spec", spec, _POD),
        *_pod_security(spec, isolation),
        *_network(spec, isolation),
        *_volumes(spec),
        *_containers(spec, isolation, ("initContainers", "containers")),
    ]


def unsupported_ephemeral(spec: Document, name: str, isolation: Isolation) -> list[Unsupported]:
    """Return the fields of an ephemeral container's specification that have no effect.

    Args:
        spec: Of the pod.
        name: Of the container.
        isolation: The capabilities of the node.
    """
    added = [each for each in spec.get("ephemeralContainers") or () if each["name"] == name]
    found = list(_containers({_EPHEMERAL: added}, isolation, (_EPHEMERAL,)))
    if not isolation.namespaces:
        why = "it is a process of this machine and sees the machine's files and processes"
        found.append(Unsupported(f"spec.{_EPHEMERAL}[{name}]", why))
    return found


def _table(
    path: str, document: Document, rules: Mapping[str, tuple[str, _Rule]]
) -> Iterator[Unsupported]:
    for field, (why, applies) in rules.items():
        if field in document and applies(document[field]):
            yield Unsupported(f"{path}.{field}", why)


def _pod_security(spec: Document, isolation: Isolation) -> Iterator[Unsupported]:
    context: Document = spec.get("securityContext") or {}
    path = "spec.securityContext"
    yield from _table(path, context, _SECURITY)
    yield from _users(path, context, isolation)
    if not isolation.root:
        for field in ("fsGroup", "supplementalGroups"):
            if context.get(field):
                yield Unsupported(f"{path}.{field}", "changing groups needs root")
    if not isolation.namespaces and (spec.get("hostname") or spec.get("subdomain")):
        yield Unsupported("spec.hostname", "pods see the machine's host name")
    if not isolation.namespaces and spec.get("hostAliases"):
        yield Unsupported("spec.hostAliases", "pods see the machine's /etc/hosts")


def _network(spec: Document, isolation: Isolation) -> Iterator[Unsupported]:
    if isolation.shared_ports and not spec.get("hostNetwork"):
        for group in ("initContainers", "containers"):
            for index, container in enumerate(spec.get(group) or ()):
                if container.get("ports"):
                    yield Unsupported(
                        f"spec.{group}[{index}].ports",
                        "ports are the machine's, so two pods cannot listen on the same one: "
                        + isolation.shared_ports,
                    )
    if not isolation.namespaces:
        usual = {None, "", "ClusterFirst", "Default", "ClusterFirstWithHostNet"}
        for field, applies in (
            ("dnsConfig", bool(spec.get("dnsConfig"))),
            ("dnsPolicy", spec.get("dnsPolicy") not in usual),
        ):
            if applies:
                yield Unsupported(f"spec.{field}", "names resolve as on this machine")


def _host_ports(path: str, container: Document) -> Iterator[Unsupported]:
    for index, port in enumerate(container.get("ports") or ()):
        if port.get("hostPort") and not is_served(port):
            field = f"{path}.ports[{index}].hostPort"
            yield Unsupported(field, "only TCP is served, and only on this machine's localhost")


def _users(path: str, context: Document, isolation: Isolation) -> Iterator[Unsupported]:
    if isolation.root or isolation.namespaces:
        return
    for field in ("runAsUser", "runAsGroup"):
        if context.get(field) is not None and context[field] != isolation.uid:
            yield Unsupported(f"{path}.{field}", "changing the user needs root")


def _capabilities(path: str, context: Document, isolation: Isolation) -> Iterator[Unsupported]:
    """Yield what of a container's `capabilities` is not as asked for."""
    capabilities: Document = context.get("capabilities") or {}
    if not any(capabilities.values()):
        return
    if not isolation.namespaces:
        why = "the process has the capabilities of the user who runs the cluster"
        yield Unsupported(f"{path}.capabilities", why)
        return
    if not isolation.root and names_of(capabilities, "add") - DEFAULT:
        why = "capabilities are those of a user namespace: they change nothing of the machine"
        yield Unsupported(f"{path}.capabilities.add", why)


def _proc_mount(path: str, context: Document, isolation: Isolation) -> Iterator[Unsupported]:
    if context.get("procMount") in {None, "", "Default"}:
        return
    if not isolation.namespaces:
        yield Unsupported(f"{path}.procMount", "/proc is the machine's")
    elif isolation.root:
        why = "/proc stays protected, because the container's root is the machine's"
        yield Unsupported(f"{path}.procMount", why)


def _volumes(spec: Document) -> Iterator[Unsupported]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        path = f"spec.volumes[{index}]"
        kinds = [key for key, value in volume.items() if key != "name" and value is not None]
        if kinds and not is_api_volume(volume) and not any(kind in _VOLUMES for kind in kinds):
            yield Unsupported(
                f"{path}.{kinds[0]}", f"volume {volume.get('name', '')} is an empty directory"
            )


def _containers(
    spec: Document, isolation: Isolation, groups: tuple[str, ...]
) -> Iterator[Unsupported]:
    for group in groups:
        for index, container in enumerate(spec.get(group) or ()):
            path = f"spec.{group}[{container['name'] if group == _EPHEMERAL else index}]"
            yield from _table(path, container, _CONTAINER)
            context: Document = container.get("securityContext") or {}
            yield from _table(f"{path}.securityContext", context, _SECURITY)
            yield from _users(f"{path}.securityContext", context, isolation)
            yield from _capabilities(f"{path}.securityContext", context, isolation)
            yield from _proc_mount(f"{path}.securityContext", context, isolation)
            if context.get("readOnlyRootFilesystem") and not isolation.namespaces:
                yield Unsupported(
                    f"{path}.securityContext.readOnlyRootFilesystem",
                    "the file system is the machine's",
                )
            yield from _host_ports(path, container)
            limits: Document = (container.get("resources") or {}).get("limits") or {}
            enforced = {*RESOURCES, *(("memory",) if isolation.memory else ())}
            for resource in limits:
                if resource not in enforced:
                    yield Unsupported(f"{path}.resources.limits.{resource}", "not enforced")
            for mount in container.get("volumeMounts") or ():
                if mount.get("mountPropagation") not in {None, "", "None"}:
                    yield Unsupported(
                        f"{path}.volumeMounts.{mount.get('name')}.mountPropagation",
                        "mounts do not propagate",
                    )
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                if (container.get(probe) or {}).get("grpc"):
                    yield Unsupported(f"{path}.{probe}.grpc", "only the connection is tried")


def unsupported_service(spec: Document) -> list[Unsupported]:
    """Return the fields of a Service that the proxy does not support."""
    return [
        Unsupported(f"spec.ports[{index}].protocol", f"{port['protocol']} is not passed on")
        for index, port in enumerate(spec.get("ports") or ())
        if port.get("protocol", "TCP") != "TCP" and spec.get("clusterIP") != "None"
    ]
