"""The pods of an MPICluster: what is added to the user's templates.

sshd of the image (`/init.sh`) takes its keys from a directory, and listens on port 2022. How
mpiexec reaches the hosts by ssh is configured in files of the image, so that it needs no variables
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.codesync import FETCH_SUFFIX
from traincrew.api.kinds.mpicluster.slots import with_named_container
from traincrew.api.kinds.mpicluster.types import (
    MASTER_CONTAINER,
    OWN_MOUNTS,
    OWN_PREFIX,
    WORKER_CONTAINER,
)
from traincrew.plan.shared import podtemplate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.api.kinds.mpicluster.codesync import CodeSync
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

GIT, GIT_SECRET = "/git", "/etc/git-secret"
"""Where the volumes of a repository and of its key are mounted in the container that fetches it."""
_GIT_KEY_MODE = 0o400
_ANY_HOST = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
_FETCH = f"""\
set -eu
rm -rf "{GIT}/$GIT_SYNC_DEST"
if [ -f {GIT_SECRET}/ssh ]; then
  GIT_SSH_COMMAND="ssh -i {GIT_SECRET}/ssh {_ANY_HOST}"
  export GIT_SSH_COMMAND
fi
set -- git clone --depth 1
if [ -n "${{GIT_SYNC_BRANCH:-}}" ]; then
  set -- "$@" --branch "$GIT_SYNC_BRANCH"
fi
set -- "$@" -- "$GIT_SYNC_REPO" "{GIT}/$GIT_SYNC_DEST"
if [ -n "${{GIT_SYNC_TIMEOUT:-}}" ]; then
  set -- timeout "$GIT_SYNC_TIMEOUT" "$@"
fi
exec "$@"
"""
"""Fetches a repository. An earlier try may have left a part of it."""

Document = dict[str, Any]


def worker(
    spec: MPIClusterSpec, helper_image: str, labels: Mapping[str, str], key_secret: str
) -> Document:
    """Return the template of the workers."""
    template = with_named_container(spec.workers.template, WORKER_CONTAINER)
    return _with_ssh(template, WORKER_CONTAINER, spec, helper_image, labels, secret=key_secret)


def master(
    spec: MPIClusterSpec,
    helper_image: str,
    labels: Mapping[str, str],
    key_secret: str,
    assets: str,
) -> Document:
    """Return the template of the master; `assets` is the ConfigMap with the hostfile."""
    template = with_named_container(spec.master.template, MASTER_CONTAINER)
    template = _with_ssh(template, MASTER_CONTAINER, spec, helper_image, labels, secret=key_secret)
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
    helper_image: str,
    labels: Mapping[str, str],
    *,
    secret: str,
) -> Document:
    """Add what both roles have: labels, keys, the port of sshd, and the code."""
    template = podtemplate.with_labels(podtemplate.plain(template), labels)
    keys = {"secretName": secret, "defaultMode": KEY_MODE}
    volumes: list[Document] = [{"name": KEY_VOLUME, "secret": keys}]
    for code in spec.code_sync:
        volumes += _code_volumes(code)
    mounts = [
        {"name": KEY_VOLUME, "mountPath": KEYS},
        *(_code_mount(code) for code in spec.code_sync),
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
        steps = [_fetch(code, helper_image, main) for code in spec.code_sync]
        template = podtemplate.with_init_containers(template, steps)
    return podtemplate.with_log_fallback(template)


def _with_port(container: Document) -> Document:
    ports = container.get("ports") or []
    if any(each.get("containerPort") == PORT for each in ports):
        return container
    return {**container, "ports": [*ports, {"containerPort": PORT}]}


# -- code from git ----------------------------------------------------------------------------


def _code_volume(code: CodeSync) -> str:
    return f"{OWN_PREFIX}sync-{code.name}"


def _code_volumes(code: CodeSync) -> list[Document]:
    volumes: list[Document] = [{"name": _code_volume(code), "emptyDir": {}}]
    if code.secret_name is not None:
        secret = {"secretName": code.secret_name, "defaultMode": _GIT_KEY_MODE}
        volumes.append({"name": f"{_code_volume(code)}-secret", "secret": secret})
    return volumes


def _code_mount(code: CodeSync) -> Document:
    mount = {"name": _code_volume(code), "mountPath": code.mount_path}
    return mount if code.sub_path is None else {**mount, "subPath": code.sub_path}


def _fetch(code: CodeSync, helper_image: str, main: Document) -> Document:
    """Return the init container that fetches a repository."""
    variables = {"GIT_SYNC_REPO": code.repository, "GIT_SYNC_DEST": code.name}
    if code.branch is not None:
        variables["GIT_SYNC_BRANCH"] = code.branch
    if code.timeout_seconds is not None:
        variables["GIT_SYNC_TIMEOUT"] = str(code.timeout_seconds)
    mounts = [{"name": _code_volume(code), "mountPath": GIT}]
    if code.secret_name is not None:
        mounts.append({"name": f"{_code_volume(code)}-secret", "mountPath": GIT_SECRET})
    step = podtemplate.helper(
        f"{code.name}{FETCH_SUFFIX}",
        helper_image,
        main,
        command=["/bin/sh", "-c", _FETCH],
        env=[{"name": name, "value": value} for name, value in variables.items()],
        volumeMounts=mounts,
    )
    if code.secret_name is not None:  # ssh refuses a key that others can read
        step["securityContext"] = {**step.get("securityContext", {}), "runAsUser": 0}
    return step
