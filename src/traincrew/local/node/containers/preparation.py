"""Preparation of a container before its start: variables, user, mounts, files."""
# Over 400 lines: the steps before a start, in their order.

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from traincrew.local.node.containers.bare import arrange
from traincrew.local.node.containers.identity import (
    Identity,
    container_identity,
    home_of,
    passwd_with,
    shadow_with,
)
from traincrew.local.node.containers.memoryfiles import memory_limit
from traincrew.local.node.containers.mounts import (
    KUBECONFIG,
    TOOLS,
    hidden_mounts,
    host_mounts,
    image_mounts,
    image_programs,
    is_within,
    node_mounts,
    ordered,
    volume_mounts,
)
from traincrew.local.node.containers.privileges import kept_capabilities
from traincrew.local.node.fields.downward import all_containers
from traincrew.local.node.fields.environment import (
    api_variables,
    command_line,
    container_environment,
    service_variables,
)
from traincrew.local.node.fields.references import env_references
from traincrew.local.node.machine.loopback import LOOPBACK
from traincrew.local.node.network.resolvconf_mount import resolver_mounts
from traincrew.local.node.runtime.instances import Instance, Launch
from traincrew.local.node.runtime.processes import (
    Collect,
    ContainerProcess,
    Mount,
    OwnPorts,
    Report,
    RootFilesystem,
)
from traincrew.local.node.sources import fetch

if TYPE_CHECKING:
    from traincrew.local.images import Environment
    from traincrew.local.node.containers.handle import PodHandle
    from traincrew.local.node.containers.mounts import VolumeMount
    from traincrew.local.node.context import Context
    from traincrew.local.node.fields.downward import PodFacts
    from traincrew.local.node.fields.references import Sources

__all__ = ["Prepared", "prepare"]

Document = Mapping[str, Any]

_PASSWD, _SHADOW = Path("/etc/passwd"), Path("/etc/shadow")
_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # no token itself
_SPARE_BYTES = 64 * 1024 * 1024
"""Of a root file system, beyond the memory limit: for copies of small files of the image, and so
that a container which writes too much is above its limit before the file system is full."""
_PATH_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Prepared(NamedTuple):
    """An instance that has not started, and the process to start."""

    instance: Instance
    process: ContainerProcess


class _Subject(NamedTuple):
    """The container to prepare.

    Attributes:
        pod: with prepared volumes.
        facts: the pod as it is now.
        container: of the pod's spec.
        image: the environment of its image.
        instance: its files are created here.
        devices: the GPUs it gets.
    """

    pod: PodHandle
    facts: PodFacts
    container: Document
    image: Environment
    instance: Instance
    devices: list[int]

    @property
    def context(self) -> Context:
        return self.pod.context

    @property
    def isolated(self) -> bool:
        """Whether it has namespaces of its own; otherwise it runs in bare mode."""
        return self.context.capabilities.namespaces

    @property
    def kubeconfig(self) -> Path:
        """Its kubeconfig, if it gets one."""
        return self.instance.directory / "kubeconfig"

    @property
    def security(self) -> Document:
        """Its `securityContext`."""
        security: Document = self.container.get("securityContext") or {}
        return security


async def prepare(
    pod: PodHandle,
    container: Document,
    environment: Environment,
    directory: Path,
    devices: list[int],
) -> Prepared:
    """Prepare an instance of a container.

    Args:
        pod: Its pod, with prepared volumes.
        container: Of the pod's spec.
        environment: Its image.
        directory: For the instance's files; existing content is deleted.
        devices: The GPUs it gets.

    Raises:
        MissingReferenceError: A ConfigMap, Secret or key does not exist.
        FieldError: A field or resource reference is invalid, or the target of an ephemeral
            container is not running.
        VolumeError: A volume mount is invalid.
        NoCommandError: Neither the container nor its image names a command.
        RootRefusedError: It would run as root and must not.
        ApiError: The API server does not answer.
        OSError: Files cannot be created.
    """
    context, instance, facts = pod.context, Instance(directory), pod.facts()
    what = _Subject(pod, facts, container, environment, instance, devices)

    sources = await fetch(context.client, facts.namespace, env_references(container))
    identity = container_identity(facts.pod, container, context.isolation, environment.user)
    variables = _variables(what, sources, identity)
    command = command_line(
        container,
        variables,
        image_command=environment.command,
        image_arguments=environment.arguments,
    )
    volumes = _volumes(what, variables)
    launch = _launch(what, variables, identity)
    rootfs = None
    if what.isolated:
        rootfs = _root_filesystem(what, launch, volumes, _user_mounts(what, identity))
    else:
        launch, command, missing = arrange(
            launch, volumes, environment, instance.directory, command=command
        )
        pod.not_emulated([f"{path}: it cannot be made on this machine" for path in missing])
    instance.create(launch)
    _write_files(instance.directory, _kubeconfig(what, volumes), identity)
    return Prepared(instance, _process(what, launch, command, rootfs, volumes))


def _variables(what: _Subject, sources: Sources, identity: Identity) -> dict[str, str]:
    """Return the variables of the container: from the node, the image, Services, and its spec."""
    context, facts = what.context, what.facts
    base = {
        "PATH": _SYSTEM_PATH,
        "HOME": home_of(context.isolation.uid if identity.uid is None else identity.uid),
        "HOSTNAME": what.pod.hostname,
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
    if context.kubectl is not None:
        tools = TOOLS if what.isolated else str(context.kubectl.parent)
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


def _volumes(what: _Subject, variables: Mapping[str, str]) -> list[VolumeMount]:
    """Return the volume mounts of the container and those that the node adds."""
    volumes = volume_mounts(what.facts.spec, what.container, what.pod.volume, variables)
    return volumes + host_mounts(what.context.pod_options.mounts, volumes)


def _launch(what: _Subject, variables: dict[str, str], identity: Identity) -> Launch:
    """Return the settings that its process and commands run in it have in common."""
    container = what.container
    return Launch(
        environment=variables,
        working_directory=container.get("workingDir") or what.image.working_directory or "/",
        namespaces=what.isolated,
        user_namespace=what.context.capabilities.user_namespace,
        uid=identity.uid,
        gid=identity.gid,
        groups=identity.groups,
        no_new_privileges=what.security.get("allowPrivilegeEscalation") is False,
        capabilities=kept_capabilities(what.security) if what.isolated else None,
        own_ports=_own_ports(what.facts, what.image, what.context) if what.isolated else None,
        gpus=what.devices,
    )


def _user_mounts(what: _Subject, identity: Identity) -> list[Mount]:
    """Return the mounts that make the user known as one that can log in.

    An image's own `/etc/passwd` stays as it is, and so does the `/etc/shadow` of a machine, which
    nobody but root can read.
    """
    files = what.image.files
    isolation = what.context.isolation
    uid = isolation.uid if identity.uid is None else identity.uid
    gid = isolation.gid if identity.gid is None else identity.gid
    mounts = []
    try:
        passwd = _text(files.get(str(_PASSWD), _PASSWD))
        changed = passwd_with(uid, gid, passwd) if str(_PASSWD) not in files else None
        if changed is not None:
            mounts.append(Mount("file", str(_PASSWD), content=changed))
        if (own := files.get(str(_SHADOW))) is not None:
            shadow = shadow_with(uid, changed or passwd, _text(own))
            mounts.append(Mount("file", str(_SHADOW), content=shadow))
    except OSError:
        return mounts
    return mounts


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="surrogateescape")


def _root_filesystem(
    what: _Subject, launch: Launch, volumes: list[VolumeMount], users: list[Mount]
) -> RootFilesystem:
    """Return the root file system of a container with namespaces."""
    context, facts = what.context, what.facts
    termination_log = what.container.get("terminationMessagePath") or "/dev/termination-log"
    mounts = ordered(
        hidden_mounts(hidden := context.secrets()),
        image_mounts(what.image, context.pod_options.mounts, hidden),
        users,
        node_mounts(
            instance=what.instance.directory,
            hosts=what.pod.hosts,
            hostname=what.pod.hostname,
            shared_memory=what.pod.shared_memory(),
            kubectl=context.kubectl,
            kubeconfig=context.pod_options.admin_kubeconfig,
            termination_log=termination_log,
            working_directory=launch.working_directory,
        ),
        resolver_mounts(facts.spec, facts.namespace, launch.own_ports, context.dns),
        [mount.as_mount() for mount in volumes],
    )
    return RootFilesystem(
        base=str(context.paths.root),
        overlay=context.capabilities.overlay,
        user_namespace=context.capabilities.user_namespace,
        mounts=mounts,
        read_only=bool(what.security.get("readOnlyRootFilesystem")),
        # As upstream, it needs a user namespace, in which root is not the machine's.
        masked=not (
            what.security.get("procMount") == "Unmasked" and context.capabilities.user_namespace
        ),
        privileged=bool(what.security.get("privileged")),
        gpus=context.gpus.files(what.devices),
        searchable=_searchable(what, launch),
        size=limit + _SPARE_BYTES if (limit := memory_limit(what.container)) else 0,
    )


def _searchable(what: _Subject, launch: Launch) -> list[str]:
    """Return the paths of its image that a user other than root must reach.

    The files of an image are readable for every user. Here they may be below directories that only
    the user who runs the cluster may search, such as root's home.
    """
    if not what.context.isolation.root or launch.uid in {None, 0}:
        return []
    lists = (launch.environment.get(name, "") for name in _PATH_VARIABLES)
    named = [path for each in lists for path in each.split(":") if path.startswith("/")]
    programs = [str(path) for path in image_programs(what.image)]
    added = [mount.target for mount in what.context.pod_options.mounts]
    return sorted({*named, *programs, *added, *what.image.files})


def _process(
    what: _Subject,
    launch: Launch,
    command: list[str],
    rootfs: RootFilesystem | None,
    volumes: list[VolumeMount],
) -> ContainerProcess:
    """Return the process that the fork server is to start."""
    container = what.container
    return ContainerProcess(
        directory=str(what.instance.directory),
        command=command,
        hostname=what.pod.hostname,
        memory_limit=memory_limit(container) if what.isolated else 0,
        rootfs=rootfs,
        tty=bool(container.get("tty")),
        report=_report(what, volumes) if what.isolated else None,
        stdin=bool(container.get("stdin")),
        stdin_once=bool(container.get("stdinOnce")),
        join=what.pod.join(container) if what.isolated else None,
        **launch.settings(),
    )


def _report(what: _Subject, volumes: list[VolumeMount]) -> Report | None:
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
        holding = [each for each in volumes if is_within(path, each.target)]
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


def _kubeconfig(what: _Subject, volumes: list[VolumeMount]) -> dict[str, Any] | None:
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
