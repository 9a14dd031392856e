"""The pods of an MPICluster: what is added to the user's templates.

sshd of the image (`/init.sh`) takes its keys from a directory, and listens on port 2022. How
mpiexec reaches the hosts by ssh is configured in files of the image, so that it needs no variables
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.types import (
    MASTER_CONTAINER,
    OWN_MOUNTS,
    OWN_PREFIX,
    WORKER_CONTAINER,
)
from traincrew.api.podtemplate import with_named_container
from traincrew.plan.mpicluster import codesync
from traincrew.plan.shared import podtemplate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec

PORT = 2022
"""Port of sshd in the pods."""
GENERATED, KEYS = OWN_MOUNTS
HOSTFILE = f"{GENERATED}/hostfile"
KEY_VOLUME = f"{OWN_PREFIX}ssh-key"
HOSTFILE_VOLUME = f"{OWN_PREFIX}hostfile-dir"
KEY_MODE = 0o400

INIT = "/init.sh"
"""Starts sshd in the image, and then the command that it is given."""
ONE_SHOT = {"ONE_SHOT": "true"}
"""Lets `INIT` run its arguments and end with them."""
READINESS = {"tcpSocket": {"port": PORT}, "initialDelaySeconds": 1, "periodSeconds": 5}
"""A pod whose sshd does not answer is of no use to mpiexec."""

Document = dict[str, Any]


def worker(
    spec: MPIClusterSpec, git_image: str, labels: Mapping[str, str], key_secret: str
) -> Document:
    """Return the template of the workers."""
    template = with_named_container(spec.workers.template, WORKER_CONTAINER)
    return _with_ssh(template, WORKER_CONTAINER, spec, git_image, labels, secret=key_secret)


def master(
    spec: MPIClusterSpec,
    git_image: str,
    labels: Mapping[str, str],
    key_secret: str,
    assets: str,
) -> Document:
    """Return the template of the master; `assets` is the ConfigMap with the hostfile."""
    template = with_named_container(spec.master.template, MASTER_CONTAINER)
    template = _with_ssh(template, MASTER_CONTAINER, spec, git_image, labels, secret=key_secret)
    template = podtemplate.with_spec(template, restartPolicy=_restart_policy(spec))
    items = [{"key": "hostfile", "path": "hostfile"}]
    volume = {"name": HOSTFILE_VOLUME, "configMap": {"name": assets, "items": items}}
    template = podtemplate.with_volumes(template, [volume])

    def equipped(container: Document) -> Document:
        if container.get("name") != MASTER_CONTAINER:
            return container
        variables = {"HOSTFILE": HOSTFILE}
        if spec.one_shot is not None:
            variables |= ONE_SHOT
            container = {**container, "command": [INIT, spec.one_shot.command]}
        container = podtemplate.add_env(container, variables)
        return podtemplate.add_mounts(
            container, [{"name": HOSTFILE_VOLUME, "mountPath": GENERATED}]
        )

    return podtemplate.map_containers(template, equipped)


def _restart_policy(spec: MPIClusterSpec) -> str:
    """Return the restart policy of the master.

    A kubelet restarts a container for the first time at once, before anybody could stop it: a
    command that must not be run again needs a pod that is never restarted.
    """
    return "Never" if spec.one_shot is not None and spec.backoff_limit == 0 else "OnFailure"


def _with_ssh(
    template: Document,
    name: str,
    spec: MPIClusterSpec,
    git_image: str,
    labels: Mapping[str, str],
    *,
    secret: str,
) -> Document:
    """Add what both roles have: labels, keys, the port of sshd, and the code."""
    template = podtemplate.with_labels(podtemplate.plain(template), labels)
    keys = {"secretName": secret, "defaultMode": KEY_MODE}
    volumes = [{"name": KEY_VOLUME, "secret": keys}, *codesync.volumes(spec.code_sync)]
    mounts = [
        {"name": KEY_VOLUME, "mountPath": KEYS},
        *(codesync.mount(code) for code in spec.code_sync),
    ]

    def equipped(container: Document) -> Document:
        if container.get("name") != name:
            return container
        container = _with_port(container)
        if "readinessProbe" not in container:
            container = {**container, "readinessProbe": READINESS}
        return podtemplate.add_mounts(container, mounts)

    containers = template["spec"].get("containers") or []
    main: Document = next((each for each in containers if each.get("name") == name), {})
    template = podtemplate.map_containers(template, equipped)
    template = podtemplate.with_volumes(template, volumes)
    if spec.code_sync:
        steps = [codesync.container(code, git_image, main) for code in spec.code_sync]
        template = podtemplate.with_init_containers(template, steps)
    return podtemplate.with_log_fallback(template)


def _with_port(container: Document) -> Document:
    ports = container.get("ports") or []
    if any(each.get("containerPort") == PORT for each in ports):
        return container
    return {**container, "ports": [*ports, {"containerPort": PORT}]}
