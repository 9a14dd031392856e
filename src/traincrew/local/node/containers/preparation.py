"""Preparation of a container before its start: variables, user, mounts, files."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from traincrew.local.images import owned_root
from traincrew.local.node.containers.bare import arrange
from traincrew.local.node.containers.devices import device_edits, device_variables
from traincrew.local.node.containers.identity import (
    Identity,
    accounts_of,
    container_identity,
    home_of,
)
from traincrew.local.node.containers.imagevolumes import mounted_images
from traincrew.local.node.containers.memoryfiles import is_storage_limited, memory_limit
from traincrew.local.node.containers.mounts import (
    KUBECONFIG,
    TOOLS,
    host_mounts,
    is_within,
    volume_mounts,
)
from traincrew.local.node.containers.privileges import kept_capabilities
from traincrew.local.node.containers.roots import root_filesystem
from traincrew.local.node.containers.signals import signal_number
from traincrew.local.node.containers.subject import Subject
from traincrew.local.node.fields.downward import all_containers
from traincrew.local.node.fields.environment import (
    api_variables,
    command_line,
    container_environment,
    service_variables,
)
from traincrew.local.node.fields.references import env_references
from traincrew.local.node.machine.cdi import Edits
from traincrew.local.node.machine.loopback import LOOPBACK
from traincrew.local.node.runtime.instances import Instance, Launch
from traincrew.local.node.runtime.processes import (
    Collect,
    ContainerProcess,
    OwnPorts,
    Report,
    RootFilesystem,
)
from traincrew.local.node.sources import fetch

if TYPE_CHECKING:
    from traincrew.local.images import Environment, ImageRoot
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.containers.mounts import VolumeMount
    from traincrew.local.node.context import Context
    from traincrew.local.node.fields.downward import PodFacts
    from traincrew.local.node.fields.references import Sources
    from traincrew.local.subordinate import IdMap

__all__ = ["Prepared", "prepare"]

Document = Mapping[str, Any]

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # no token itself
_ONE_USER = (
    "root of its image is the one user that this machine gives it: it cannot become another, as"
    " sshd does, or give files to one"
)
_JOINS = "it is in the namespaces of another container"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Prepared(NamedTuple):
    """An instance that has not started, and the process to start."""

    instance: Instance
    process: ContainerProcess


async def prepare(
    pod: PodHandle,
    container: Document,
    environment: Environment,
    directory: Path,
    devices: list[int],
    *,
    images: Mapping[str, ImageRoot] = MappingProxyType({}),
) -> Prepared:
    """Prepare an instance of a container.

    Args:
        pod: Its pod, with prepared volumes.
        container: Of the pod's spec.
        environment: Its image.
        directory: For the instance's files; existing content is deleted.
        devices: The GPUs it gets.
        images: Of its volumes that are images, by their names.

    Raises:
        MissingReferenceError: A ConfigMap, Secret or key does not exist.
        FieldError: A field or resource reference is invalid, or the target of an ephemeral
            container is not running.
        VolumeError: A volume mount is invalid.
        NoCommandError: Neither the container nor its image names a command.
        RootRefusedError: It would run as root and must not.
        UnknownUserError: Its image lacks the user that it names.
        ApiError: The API server does not answer.
        OSError: Files cannot be created.
    """
    context, instance, facts = pod.context, Instance(directory), pod.facts()
    what = Subject(pod, facts, container, environment, {}, instance, devices, Edits())
    if environment.root is not None:
        annotations = facts.pod["metadata"].get("annotations") or {}
        edits = device_edits(context.cdi, context.gpus, devices, annotations)
        pod.not_emulated([f"{hook}: hooks of CDI are not run" for hook in edits.hooks])
        what = what._replace(edits=edits)

    sources = await fetch(context.client, facts.namespace, env_references(container))
    identity = container_identity(facts.pod, container, context.isolation, environment)
    id_map = None
    if environment.root is not None and context.capabilities.user_namespace and identity.uid == 0:
        id_map = await _users(what, identity)
        if id_map is not None:
            root = await asyncio.to_thread(owned_root, environment.root, id_map)
            environment = replace(environment, root=root)
            what = what._replace(image=environment)
    what = what._replace(volumes=await mounted_images(images, id_map))
    variables = _variables(what, sources, identity)
    command = command_line(
        container,
        variables,
        image_command=environment.command,
        image_arguments=environment.arguments,
    )
    volumes = _volumes(what, variables)
    launch = _launch(what, variables, identity, id_map)
    rootfs = None
    if what.isolated:
        rootfs = root_filesystem(what, launch, volumes, identity)
    else:
        launch, command, missing = arrange(
            launch, volumes, environment, instance.directory, command=command
        )
        pod.not_emulated([f"{path}: it cannot be made on this machine" for path in missing])
    instance.create(launch)
    _write_files(instance.directory, _kubeconfig(what, volumes), identity)
    return Prepared(instance, _process(what, launch, command, rootfs, volumes))


async def _users(what: Subject, identity: Identity) -> IdMap | None:
    """Return the users of a container of an image that runs as root; None if there is one."""
    users = what.context.image_users
    found = await users.id_map()
    reason = users.reason
    if found is not None and what.pod.join(what.container) is not None:
        found, reason = None, _JOINS
    if found is not None and (identity.gid or 0) >= found.groups:
        reason = f"group {identity.gid} is not among the {found.groups} that it can have"
        found = None
    if found is None:
        what.pod.not_emulated([f"container {what.container['name']}: {_ONE_USER}: {reason}"])
    return found


def _variables(what: Subject, sources: Sources, identity: Identity) -> dict[str, str]:
    """Return the variables of the container: from the node, the image, Services, and its spec."""
    context, facts = what.context, what.facts
    uid = context.isolation.uid if identity.uid is None else identity.uid
    root = what.image.root
    base = {
        "PATH": _SYSTEM_PATH,
        "HOME": home_of(uid) if root is None else accounts_of(root).find(str(uid)).home,
        "HOSTNAME": what.pod.hostname,
        **({"TERM": "xterm"} if root is not None and what.container.get("tty") else {}),
        **what.image.variables,
    }
    if context.pod_options.admin_kubeconfig:
        base["KUBECONFIG"] = KUBECONFIG if what.isolated else str(what.kubeconfig)
    elif not what.isolated and _mounts_token(what.container):
        # Its token is not where programs look for it.
        base["KUBECONFIG"] = str(what.kubeconfig)
    if context.api_port:
        base |= api_variables(LOOPBACK, context.api_port)
    base |= context.gpus.variables(what.devices, own_files=what.isolated)
    base |= device_variables(what.edits, what.image.variables)
    if what.kubectl is not None:
        tools = TOOLS if what.isolated else str(what.kubectl.parent)
        base["PATH"] = f"{base['PATH']}:{tools}"
    links = bool(facts.spec.get("enableServiceLinks", True))
    return container_environment(
        facts,
        what.container,
        sources,
        image=base,
        services=service_variables(context.services(), facts.namespace, links=links),
        overrides=context.pod_options.variables,
    )


def _volumes(what: Subject, variables: Mapping[str, str]) -> list[VolumeMount]:
    """Return the volume mounts of the container and those that the node adds."""
    spec, place = what.facts.spec, what.pod.volume
    volumes = volume_mounts(spec, what.container, place, variables, what.volumes)
    return volumes + host_mounts(what.context.pod_options.mounts, volumes)


def _launch(
    what: Subject, variables: dict[str, str], identity: Identity, id_map: IdMap | None
) -> Launch:
    """Return the settings that its process and commands run in it have in common."""
    container = what.container
    return Launch(
        environment=variables,
        working_directory=container.get("workingDir") or what.image.working_directory or "/",
        namespaces=what.isolated,
        user_namespace=what.context.capabilities.user_namespace,
        uid=identity.uid,
        gid=identity.gid,
        groups=_groups(identity, what, id_map),
        id_map=id_map,
        no_new_privileges=what.security.get("allowPrivilegeEscalation") is False,
        capabilities=kept_capabilities(what.security) if what.isolated else None,
        own_ports=_own_ports(what.facts, what.image, what.context) if what.isolated else None,
        gpus=what.devices,
        stop_signal=_stop_signal(what),
    )


def _groups(identity: Identity, what: Subject, id_map: IdMap | None) -> list[int] | None:
    """Return the further groups of the container; those of devices only where it may have any."""
    if id_map is not None:
        return [group for group in identity.groups or () if group < id_map.groups]
    if not what.context.isolation.root:
        return None
    if not what.edits.groups:
        return identity.groups
    return [*(identity.groups or ()), *what.edits.groups]


def _stop_signal(what: Subject) -> int:
    named = (what.container.get("lifecycle") or {}).get("stopSignal")
    root = what.image.root
    return signal_number(named or ("SIGTERM" if root is None else root.stop_signal))


def _process(
    what: Subject,
    launch: Launch,
    command: list[str],
    rootfs: RootFilesystem | None,
    volumes: list[VolumeMount],
) -> ContainerProcess:
    """Return the process that the fork server is to start."""
    container = what.container
    roots = [what.image.root, *(each.root for each in what.volumes.values())]
    return ContainerProcess(
        directory=str(what.instance.directory),
        command=command,
        hostname=what.pod.hostname,
        memory_limit=memory_limit(container) if what.isolated else 0,
        measured=what.isolated and is_storage_limited(what.facts.spec),
        images=[str(root.place) for root in roots if root is not None and root.place is not None],
        rootfs=rootfs,
        tty=bool(container.get("tty")),
        report=_report(what, volumes) if what.isolated else None,
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        join=what.pod.join(container) if what.isolated else None,
        **launch.settings(),
    )


def _report(what: Subject, volumes: list[VolumeMount]) -> Report | None:
    """Return what to report and collect when the container has ended."""
    pod, options = what.pod, what.context.pod_options
    if not options.report and not options.collect and options.keep is None:
        return None
    name = str(what.container["name"])
    place = Path(pod.namespace) / pod.name / name / str(what.instance.number)
    collect = []
    if (keep := options.keep) is not None:
        collect.append(Collect("/", str(keep / place), budget=str(keep / "budget")))
    for path, directory in options.collect:
        to = str(directory / place)
        holding = [each for each in volumes if each.image is None and is_within(path, each.target)]
        if not holding:
            collect.append(Collect(path, to))
            continue
        volume = max(holding, key=lambda each: len(each.target))
        if volume.source.is_dir():
            below = os.path.relpath(path, volume.target)
            below = "" if below == "." else below
            collect.append(Collect(path, to, str(volume.source), below))
    return Report((pod.namespace, pod.name, name), collect)


def _own_ports(facts: PodFacts, environment: Environment, context: Context) -> OwnPorts | None:
    """Return the pod's own ports: all, or only declared ones if the image demands it."""
    if not context.capabilities.own_ports:
        return None
    redirects = {} if context.dns is None else context.dns.redirects()
    declared = sorted(
        {
            int(port["containerPort"])
            for container in all_containers(facts.spec)
            for port in container.get("ports") or ()
        }
    )
    ports = None if environment.own_ports else declared
    return OwnPorts(facts.pod_ip, ports, declared, redirects)


def _mounts_token(container: Document) -> bool:
    mounts = container.get("volumeMounts") or ()
    return any(mount["mountPath"] == _TOKEN_PATH for mount in mounts)


def _kubeconfig(what: Subject, volumes: list[VolumeMount]) -> dict[str, Any] | None:
    """Return the kubeconfig of a container: the administrator's only if that was asked for.

    In bare mode it is that of its ServiceAccount, if it has the account's token.
    """
    document = what.context.kubeconfig(what.facts.namespace)
    if what.context.pod_options.admin_kubeconfig:
        return document
    source = next((each.source for each in volumes if each.target == _TOKEN_PATH), None)
    if what.isolated or source is None:
        return None
    user = {**document["users"][0], "user": {"tokenFile": str(source / "token")}}
    return {**document, "users": [user]}


def _write_files(directory: Path, kubeconfig: dict[str, Any] | None, identity: Identity) -> None:
    files = [("termination-log", b"", 0o666)]
    if kubeconfig is not None:
        files.append(("kubeconfig", msgspec.json.encode(kubeconfig), 0o600))
    for name, content, mode in files:
        path = directory / name
        path.write_bytes(content)
        path.chmod(mode)
        if identity.uid is not None and os.geteuid() == 0:
            os.chown(path, identity.uid, -1)
