"""The root file system of a container: the machine's files or an image's, and its mounts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from traincrew.local.node.containers.devices import device_mounts
from traincrew.local.node.containers.identity import Identity, passwd_with, shadow_with
from traincrew.local.node.containers.memoryfiles import memory_limit
from traincrew.local.node.containers.mounts import (
    hidden_mounts,
    image_mounts,
    image_programs,
    node_mounts,
    ordered,
)
from traincrew.local.node.network.resolvconf_mount import resolver_file, resolver_mounts
from traincrew.local.node.runtime.processes import Mount, RootFilesystem

if TYPE_CHECKING:
    from traincrew.local.node.containers.mounts import VolumeMount
    from traincrew.local.node.containers.subject import Subject
    from traincrew.local.node.runtime.instances import Launch

__all__ = ["root_filesystem"]

_PASSWD, _SHADOW = Path("/etc/passwd"), Path("/etc/shadow")
_SPARE_BYTES = 64 * 1024 * 1024
"""Of a root file system, beyond the memory limit: for copies of small files of the image, and so
that a container which writes too much is above its limit before the file system is full."""
_PATH_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")


def root_filesystem(
    what: Subject, launch: Launch, volumes: list[VolumeMount], identity: Identity
) -> RootFilesystem:
    """Return the root file system of a container with namespaces.

    Args:
        what: The container.
        launch: How it is started.
        volumes: What is mounted in it.
        identity: Its user.
    """
    context, facts, root = what.context, what.facts, what.image.root
    read_only = bool(what.security.get("readOnlyRootFilesystem"))
    termination_log = what.container.get("terminationMessagePath") or "/dev/termination-log"
    mounts = ordered(
        *_image_mounts(what, read_only=read_only),
        _user_mounts(what, identity),
        node_mounts(
            instance=what.instance.directory,
            hosts=what.pod.hosts,
            hostname=what.pod.hostname,
            shared_memory=what.pod.shared_memory(),
            kubectl=what.kubectl,
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
        image=None if root is None else [str(layer) for layer in root.layers],
        read_only=read_only,
        # As upstream, it needs a user namespace, in which root is not the machine's.
        masked=not (
            what.security.get("procMount") == "Unmasked" and context.capabilities.user_namespace
        ),
        privileged=bool(what.security.get("privileged")),
        gpus=context.gpus.files(what.devices),
        searchable=_searchable(what, launch),
        size=limit + _SPARE_BYTES if (limit := memory_limit(what.container)) else 0,
    )


def _user_mounts(what: Subject, identity: Identity) -> list[Mount]:
    """Return the mounts that make the user known as one that can log in.

    An image's own `/etc/passwd` stays as it is, and so does the `/etc/shadow` of a machine, which
    nobody but root can read. A container image stays as it is altogether, as in containerd.
    """
    if what.image.root is not None:
        return []
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


def _image_mounts(what: Subject, *, read_only: bool) -> list[list[Mount]]:
    """Return what the image has mounted in its containers, and what they must not see."""
    root = what.image.root
    if root is not None:
        volumes = [Mount("volume", os.path.normpath(path)) for path in root.volumes]
        return [resolver_file(), volumes if read_only else [], device_mounts(what.edits)]
    hidden = what.context.secrets()
    return [
        hidden_mounts(hidden),
        image_mounts(what.image, what.context.pod_options.mounts, hidden),
    ]


def _searchable(what: Subject, launch: Launch) -> list[str]:
    """Return the paths of its image that a user other than root must reach.

    The files of an image are readable for every user. Here they may be below directories that only
    the user who runs the cluster may search, such as root's home.
    """
    if not what.context.isolation.root or launch.uid in {None, 0} or what.image.root is not None:
        return []
    lists = (launch.environment.get(name, "") for name in _PATH_VARIABLES)
    named = [path for each in lists for path in each.split(":") if path.startswith("/")]
    programs = [str(path) for path in image_programs(what.image)]
    added = [mount.target for mount in what.context.pod_options.mounts]
    return sorted({*named, *programs, *added, *what.image.files})
