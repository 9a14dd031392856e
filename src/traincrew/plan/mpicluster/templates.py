"""The pods of an MPICluster: what is added to the user's templates.

With ``transport: ssh``, sshd of the image (`/init.sh`) takes its keys from a directory, and listens
on port 2022. How mpiexec reaches the hosts by ssh is configured in files of the image, so that it
needs no variables here. For ``transport: exec`` see `agent`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.transport import EXEC, GENERATED_MOUNT, KEY_MOUNT
from traincrew.api.kinds.mpicluster.types import (
    MASTER_CONTAINER,
    OWN_PREFIX,
    WORKER_CONTAINER,
)
from traincrew.plan.mpicluster import agent, codesync
from traincrew.plan.shared.templates import openmpi, podtemplate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec
    from traincrew.plan.shared.kind import Options

PORT = 2022
"""Port of sshd in the pods."""
HOSTFILE = f"{GENERATED_MOUNT}/hostfile"
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
    spec: MPIClusterSpec, git_image: str, labels: Mapping[str, str], key_secret: str, assets: str
) -> Document:
    """Return the template of the workers."""
    template, name = spec.workers.template, WORKER_CONTAINER
    template = _for_both(template, name, spec, git_image, labels, secret=key_secret)
    template = _without_token(template)
    return agent.with_agent_unused(template, assets) if spec.transport == EXEC else template


def master(
    spec: MPIClusterSpec,
    options: Options,
    labels: Mapping[str, str],
    key_secret: str,
    *,
    assets: str,
    account: str,
    hosts: Sequence[str],
) -> Document:
    """Return the template of the master.

    Args:
        spec: The cluster.
        options: The images of init containers.
        labels: Of the pod.
        key_secret: The Secret with the keys, if there is ssh.
        assets: The ConfigMap with the hostfile.
        account: The ServiceAccount, if there is no ssh.
        hosts: Names of the master and of a worker as they stand in the hostfile.
    """
    template = spec.master.template
    git, name = options.git_image, MASTER_CONTAINER
    has_token = spec.transport == EXEC
    template = _for_both(
        template, name, spec, git, labels, secret=key_secret, hides_token=has_token
    )
    if not has_token:
        template = _without_token(template)
    policy = _restart_policy(spec)
    template = podtemplate.with_spec(template, restartPolicy=policy)
    if policy == "Never":
        retried = partial(codesync.retried, spec.code_sync)
        template = podtemplate.map_containers(template, retried, init=True)
    items = [{"key": "hostfile", "path": "hostfile"}]
    volume = {"name": HOSTFILE_VOLUME, "configMap": {"name": assets, "items": items}}
    template = podtemplate.with_volumes(template, [volume])

    def equipped(container: Document) -> Document:
        if container.get("name") != MASTER_CONTAINER:
            return container
        variables = {"HOSTFILE": HOSTFILE} | openmpi.host_name_environment(hosts)
        if spec.one_shot is not None and spec.transport == EXEC:
            container = agent.running(container, spec.one_shot.command)
        elif spec.one_shot is not None:
            variables |= ONE_SHOT
            container = {**container, "command": [INIT, spec.one_shot.command]}
        container = podtemplate.add_env(container, variables)
        return podtemplate.add_mounts(
            container, [{"name": HOSTFILE_VOLUME, "mountPath": GENERATED_MOUNT}]
        )

    template = podtemplate.map_containers(template, equipped)
    if spec.transport != EXEC:
        return template
    template = agent.with_agent(template, options.helper_image, assets, account)
    return podtemplate.with_log_fallback(template)


def _restart_policy(spec: MPIClusterSpec) -> str:
    """Return the restart policy of the master.

    A kubelet restarts a container for the first time at once, before anybody could stop it: a
    command that must not be run again needs a pod that is never restarted.
    """
    return "Never" if spec.one_shot is not None and spec.backoff_limit == 0 else "OnFailure"


def _for_both(
    template: Document,
    name: str,
    spec: MPIClusterSpec,
    git_image: str,
    labels: Mapping[str, str],
    *,
    secret: str,
    hides_token: bool = False,
) -> Document:
    """Add what both roles have: labels, keys, the port of sshd, and the code.

    Args:
        template: The template of the user.
        name: The main container.
        spec: The cluster.
        git_image: The image of the containers that fetch code.
        labels: Of the pod.
        secret: The Secret with the keys, if there is ssh.
        hides_token: Whether the containers that fetch code must not see the token of the pod.
    """
    template = podtemplate.with_labels(podtemplate.plain(template), labels)
    ssh = spec.transport != EXEC
    volumes = codesync.volumes(spec.code_sync, hides_token=hides_token)
    mounts = [codesync.mount(code) for code in spec.code_sync]
    if ssh:
        keys = {"secretName": secret, "defaultMode": KEY_MODE}
        volumes.insert(0, {"name": KEY_VOLUME, "secret": keys})
        mounts.insert(0, {"name": KEY_VOLUME, "mountPath": KEY_MOUNT})

    def equipped(container: Document) -> Document:
        if container.get("name") != name:
            return container
        container = _with_sshd(container) if ssh else agent.waiting(container)
        return podtemplate.add_mounts(container, mounts) if mounts else container

    containers = template["spec"].get("containers") or []
    main: Document = next((each for each in containers if each.get("name") == name), {})
    template = podtemplate.map_containers(template, equipped)
    template = podtemplate.with_volumes(template, volumes) if volumes else template
    if spec.code_sync:
        steps = codesync.containers(spec.code_sync, git_image, main, hides_token=hides_token)
        template = podtemplate.with_init_containers(template, steps)
    return podtemplate.with_log_fallback(template)


def _without_token(template: Document) -> Document:
    """Mount no token in a pod that needs no access to the API, unless the user asks for it.

    Who names a ServiceAccount wants to use it: clouds know a pod by its account.
    """
    pod = template["spec"]
    named = pod.get("serviceAccountName") or pod.get("serviceAccount")
    return template if named else podtemplate.without_token(template)


def _with_sshd(container: Document) -> Document:
    """Add the port of sshd, and a probe: the pod is ready when sshd listens."""
    ports = container.get("ports") or []
    if not any(each.get("containerPort") == PORT for each in ports):
        container = {**container, "ports": [*ports, {"containerPort": PORT}]}
    if "readinessProbe" in container:
        return container
    return {**container, "readinessProbe": READINESS}
