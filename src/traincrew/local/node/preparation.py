"""Everything a container needs before it can start: variables, user, mounts, files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from traincrew.local.node.addresses import LOOPBACK
from traincrew.local.node.bare import arrange
from traincrew.local.node.environment import (
    api_variables,
    command_line,
    container_environment,
    service_variables,
)
from traincrew.local.node.fields import all_containers
from traincrew.local.node.gpus import gpu_variables
from traincrew.local.node.identity import Identity, container_identity, home_of
from traincrew.local.node.instances import Instance, Launch
from traincrew.local.node.launcher import ContainerProcess, OwnPorts, RootFilesystem
from traincrew.local.node.mounts import (
    KUBECONFIG,
    TOOLS,
    image_mounts,
    node_mounts,
    ordered,
    volume_mounts,
)
from traincrew.local.node.references import env_references

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images import Environment
    from traincrew.local.node.fields import PodFacts
    from traincrew.local.node.pod import Pod

__all__ = ["Prepared", "prepare"]

Document = Mapping[str, Any]

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Prepared(NamedTuple):
    """An instance that has not started, and what to start."""

    instance: Instance
    process: ContainerProcess


async def prepare(
    pod: Pod, container: Document, environment: Environment, directory: Path, devices: list[int]
) -> Prepared:
    """Prepare an instance of a container.

    Args:
        pod: Its pod, whose volumes are there.
        container: Of the pod's spec.
        environment: Its image.
        directory: For the instance's files; anything there is deleted.
        devices: The GPUs it gets.

    Raises:
        MissingReferenceError: A ConfigMap, Secret or key is not there.
        FieldError: A field or resource reference makes no sense.
        VolumeError: A volume mount makes no sense.
        NoCommandError: Nobody says what to run.
        RootRefusedError: It would run as root, and must not.
        ApiError: The API server does not answer.
        OSError: The disk does not play along.
    """
    context = pod.context
    capabilities = context.capabilities
    facts = pod.facts()
    sources = await context.fetch(facts.namespace, env_references(container))
    identity = container_identity(facts.spec, container, context.isolation)
    isolated = capabilities.namespaces
    instance = Instance(directory)
    kubeconfig = KUBECONFIG if isolated else str(instance.directory / "kubeconfig")
    base = {
        "PATH": _SYSTEM_PATH,
        "HOME": home_of(context.isolation.uid if identity.uid is None else identity.uid),
        "HOSTNAME": pod.hostname,
        "KUBECONFIG": kubeconfig,
        **environment.variables,
    }
    if context.secure_port:
        base |= api_variables(LOOPBACK, context.secure_port)
    if context.gpus.any:
        base |= gpu_variables(devices)
    if context.kubectl is not None:
        tools = TOOLS if isolated else str(context.kubectl.parent)
        base["PATH"] = f"{base['PATH']}:{tools}"
    links = bool(facts.spec.get("enableServiceLinks", True))
    variables = container_environment(
        facts,
        container,
        sources,
        image=base,
        services=service_variables(context.services(), facts.namespace, links=links),
    )
    command = command_line(
        container,
        variables,
        image_command=environment.command,
        image_arguments=environment.arguments,
    )
    working_directory = container.get("workingDir") or environment.working_directory or "/"
    volumes = volume_mounts(facts.spec, container, pod.volumes.place, variables)

    security = container.get("securityContext") or {}
    launch = Launch(
        environment=variables,
        working_directory=working_directory,
        namespaces=isolated,
        user_namespace=capabilities.user_namespace,
        uid=identity.uid,
        gid=identity.gid,
        groups=identity.groups,
        no_new_privileges=security.get("allowPrivilegeEscalation") is False,
        own_ports=_own_ports(facts, environment) if isolated else None,
        gpus=devices,
    )
    rootfs = None
    if isolated:
        mounts = ordered(
            image_mounts(environment),
            node_mounts(
                instance=instance.directory,
                hosts=pod.hosts,
                hostname=pod.hostname,
                shared_memory=pod.shared_memory(),
                kubectl=context.kubectl,
                termination_log=container.get("terminationMessagePath") or "/dev/termination-log",
                working_directory=working_directory,
            ),
            [mount.as_mount() for mount in volumes],
        )
        rootfs = RootFilesystem(
            base=str(context.paths.root),
            overlay=capabilities.overlay,
            user_namespace=capabilities.user_namespace,
            mounts=mounts,
            read_only=bool(security.get("readOnlyRootFilesystem")),
        )
    else:
        launch = arrange(pod, launch, volumes, environment, instance.directory)
    instance.create(launch)
    _write_files(instance.directory, context.kubeconfig(facts.namespace), identity)
    process = ContainerProcess(
        directory=str(instance.directory),
        command=command,
        environment=launch.environment,
        working_directory=launch.working_directory,
        hostname=pod.hostname,
        namespaces=isolated,
        user_namespace=capabilities.user_namespace,
        rootfs=rootfs,
        uid=identity.uid,
        gid=identity.gid,
        groups=identity.groups,
        no_new_privileges=launch.no_new_privileges,
        own_ports=launch.own_ports,
        tty=bool(container.get("tty")),
    )
    return Prepared(instance, process)


def _own_ports(facts: PodFacts, environment: Environment) -> OwnPorts | None:
    """The ports that belong to the pod: those its containers declare, or all of the image's."""
    if facts.spec.get("hostNetwork") or not facts.pod_ip or facts.pod_ip == LOOPBACK:
        return None
    if environment.own_ports:
        return OwnPorts(facts.pod_ip, None)
    declared = {
        int(port["containerPort"])
        for container in all_containers(facts.spec)
        for port in container.get("ports") or ()
    }
    return OwnPorts(facts.pod_ip, sorted(declared)) if declared else None


def _write_files(directory: Path, kubeconfig: dict[str, Any], identity: Identity) -> None:
    for name, content, mode in (
        ("kubeconfig", msgspec.json.encode(kubeconfig), 0o600),
        ("termination-log", b"", 0o666),
    ):
        path = directory / name
        path.write_bytes(content)
        path.chmod(mode)
        if identity.uid is not None and os.geteuid() == 0:
            os.chown(path, identity.uid, -1)
