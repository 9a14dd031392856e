"""What a pod may ask for and does not get here: one table. Pure.

Each pod that asks for something of it gets one Warning event `NotEmulated` naming the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct

from traincrew.local.node.payloads import is_api_volume

__all__ = ["Isolation", "Unsupported", "unsupported", "unsupported_service"]

Document = Mapping[str, Any]


class Isolation(Struct, frozen=True):
    """What the node can do, as far as it matters here.

    Attributes:
        namespaces: pods have their own file system, processes and host name.
        root: the node runs as root, so a container may run as any user.
        uid: the node's user, and `gid` its group.
        memory: memory limits are enforced.
    """

    namespaces: bool = True
    root: bool = False
    uid: int = 0
    gid: int = 0
    memory: bool = True


class Unsupported(NamedTuple):
    """A field of a pod, and what happens instead."""

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
    "dnsConfig": ("names resolve as on this machine", _set),
    "dnsPolicy": (
        "names resolve as on this machine",
        lambda value: value not in {None, "", "ClusterFirst", "Default", "ClusterFirstWithHostNet"},
    ),
    "overhead": ("nothing is reserved for it", _set),
    "resourceClaims": ("there are no device drivers", _set),
    "ephemeralContainers": ("they are not started", _set),
}
# Fields of `spec.securityContext` and of a container's.
_SECURITY: dict[str, tuple[str, _Rule]] = {
    "privileged": ("containers have the rights of the user who runs the cluster", _set),
    "capabilities": ("containers have the capabilities of the user who runs the cluster", _set),
    "seLinuxOptions": ("no SELinux label is set", _set),
    "appArmorProfile": (
        "no profile is loaded",
        lambda value: (value or {}).get("type", "Unconfined") != "Unconfined",
    ),
    "seccompProfile": (
        "no profile is loaded",
        lambda value: (value or {}).get("type", "Unconfined") != "Unconfined",
    ),
    "procMount": ("/proc is mounted as usual", lambda value: value not in {None, "", "Default"}),
    "windowsOptions": ("this is not Windows", _set),
    "sysctls": ("kernel settings are the machine's", _set),
}
_CONTAINER: dict[str, tuple[str, _Rule]] = {
    "volumeDevices": ("there are no block devices", _set),
    "stdin": ("nothing can be attached; the program reads end-of-file", _set),
    "restartPolicyRules": ("the container's restartPolicy alone decides", _set),
    "resizePolicy": (
        "resources of a running container do not change",
        lambda value: any(each.get("restartPolicy") != "NotRequired" for each in value or ()),
    ),
}
_VOLUMES = ("emptyDir", "hostPath", "persistentVolumeClaim")


def unsupported(pod: Document, isolation: Isolation) -> list[Unsupported]:
    """What of a pod's specification will not be honoured."""
    spec: Document = pod.get("spec") or {}
    return [
        *_table("spec", spec, _POD),
        *_pod_security(spec, isolation),
        *_volumes(spec),
        *_containers(spec, isolation),
    ]


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


def _users(path: str, context: Document, isolation: Isolation) -> Iterator[Unsupported]:
    if isolation.root or isolation.namespaces:
        return
    for field in ("runAsUser", "runAsGroup"):
        if context.get(field) is not None and context[field] != isolation.uid:
            yield Unsupported(f"{path}.{field}", "changing the user needs root")


def _volumes(spec: Document) -> Iterator[Unsupported]:
    for index, volume in enumerate(spec.get("volumes") or ()):
        path = f"spec.volumes[{index}]"
        kinds = [key for key, value in volume.items() if key != "name" and value is not None]
        if kinds and not is_api_volume(volume) and not any(kind in _VOLUMES for kind in kinds):
            yield Unsupported(
                f"{path}.{kinds[0]}", f"volume {volume.get('name', '')} is an empty directory"
            )
        if (volume.get("emptyDir") or {}).get("sizeLimit"):
            yield Unsupported(f"{path}.emptyDir.sizeLimit", "the size is not limited")


def _containers(spec: Document, isolation: Isolation) -> Iterator[Unsupported]:
    for group in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(group) or ()):
            path = f"spec.{group}[{index}]"
            yield from _table(path, container, _CONTAINER)
            context: Document = container.get("securityContext") or {}
            yield from _table(f"{path}.securityContext", context, _SECURITY)
            yield from _users(f"{path}.securityContext", context, isolation)
            if context.get("readOnlyRootFilesystem") and not isolation.namespaces:
                yield Unsupported(
                    f"{path}.securityContext.readOnlyRootFilesystem",
                    "the file system is the machine's",
                )
            limits: Document = (container.get("resources") or {}).get("limits") or {}
            enforced = {"nvidia.com/gpu", *(("memory",) if isolation.memory else ())}
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
    """What of a Service the node's proxy and names do not do."""
    found = [
        Unsupported(f"spec.ports[{index}].protocol", f"{port['protocol']} is not passed on")
        for index, port in enumerate(spec.get("ports") or ())
        if port.get("protocol", "TCP") != "TCP" and spec.get("clusterIP") != "None"
    ]
    if spec.get("type") == "ExternalName":
        found.append(Unsupported("spec.externalName", "the name resolves to nothing"))
    return found
