"""Validates an MPICluster: each problem names the field, what is wrong, and the fix.

The schema's rules are repeated here, because an object may have been stored before the schema was
installed.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from traincrew.api.kinds.mpicluster.codesync import (
    COMMIT,
    FETCH_SUFFIX,
    HTTP_LOGIN,
    LOGIN,
    NO_SECRETS,
    NO_SERVER,
    SERVER,
    SUB_PATH_NEEDS,
    UPDATE_SUFFIX,
)
from traincrew.api.kinds.mpicluster.ssh import GIVEN_KEYS
from traincrew.api.kinds.mpicluster.transport import (
    EXEC,
    GATEWAY_NEEDS_SSH,
    KEYS_NEED_SSH,
    KUBECTL_CONTAINER,
    MOUNTS,
)
from traincrew.api.kinds.mpicluster.types import (
    CLUSTER_NAME,
    CONVERT,
    INSTEAD,
    MASTER_CONTAINER,
    MASTER_POLICY_WHY,
    MAX_NAME,
    OWN_PREFIX,
    WORKER_CONTAINER,
    WORKER_POLICY_WHY,
)
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec

WRONG_NAME = (
    "it becomes part of host names: it must begin with a letter and have only lower case letters,"
    " digits and '-'"
)
HOST_NAME_FIELDS = ("hostname", "subdomain", "hostNetwork", "setHostnameAsFQDN")
"""Fields of a pod that change the host name by which the hostfile lists it."""


def problems(metadata: ObjectMeta, spec: MPIClusterSpec) -> list[Problem]:
    """Return everything that keeps a cluster from running, each with its field and the fix."""
    found = list(_name_problems(metadata.name))
    for key, given in _values_keys(spec).items():
        if given is not None:
            text = f"it is a key of kube-openmpi's values; write {INSTEAD[key]}, {CONVERT}"
            found.append(Problem(f"spec.{key}", text))
    if spec.one_shot is not None and not spec.one_shot.command.strip():
        text = "it is empty; write what the master is to run"
        found.append(Problem("spec.master.oneShot.command", text))
    master = _Role("master", MASTER_CONTAINER, "OnFailure", MASTER_POLICY_WHY)
    workers = _Role("workers", WORKER_CONTAINER, "Always", WORKER_POLICY_WHY)
    for role, template in ((master, spec.master.template), (workers, spec.workers.template)):
        found += _template_problems(role, template, spec)
    if spec.ssh.key_secret_name is not None and spec.ssh.key_generation > 1:
        found.append(Problem("spec.ssh.keyGeneration", GIVEN_KEYS))
    found += _code_sync_problems(spec)
    found += _transport_problems(spec)
    return found


def _values_keys(spec: MPIClusterSpec) -> dict[str, Any]:
    return {
        "mpiMaster": spec.mpi_master,
        "mpiWorkers": spec.mpi_workers,
        "image": spec.image,
        "sshKey": spec.ssh_key,
        "sshGateway": spec.ssh_gateway,
        "appCodesToSync": spec.app_codes_to_sync,
        "nameOverride": spec.name_override,
    }


def _transport_problems(spec: MPIClusterSpec) -> Iterator[Problem]:
    if spec.transport != EXEC:
        return
    if spec.ssh.gateway.enabled:
        yield Problem("spec.ssh.gateway.enabled", GATEWAY_NEEDS_SSH)
    if spec.ssh.key_secret_name is not None:
        yield Problem("spec.ssh.keySecretName", KEYS_NEED_SSH)
    if spec.ssh.key_generation > 1:
        yield Problem("spec.ssh.keyGeneration", KEYS_NEED_SSH)
    pod = spec.master.template.get("spec")
    if isinstance(pod, dict) and pod.get("automountServiceAccountToken") is False:
        text = "with transport: exec the master needs its token; remove the field"
        yield Problem("spec.master.template.spec.automountServiceAccountToken", text)


def _name_problems(name: str) -> Iterator[Problem]:
    if not re.fullmatch(CLUSTER_NAME, name):
        yield Problem("metadata.name", f"{WRONG_NAME}; choose another name")
    if len(name) > MAX_NAME:
        yield Problem(
            "metadata.name",
            f"{len(name)} characters; at most {MAX_NAME} are possible, because the StatefulSet is"
            " named <name>-worker; choose a shorter name",
        )


# -- templates ------------------------------------------------------------------------------------


class _Role(Struct, frozen=True):
    """What a template must be like, by its role."""

    field: str
    container: str
    policy: str
    why: str


def _template_problems(
    role: _Role, given: dict[str, Any], spec: MPIClusterSpec
) -> Iterator[Problem]:
    path = f"spec.{role.field}.template"
    if not given:
        yield Problem(path, "it is required; write the template of a pod")
        return
    try:
        pod = msgspec.convert(given, _Template).spec
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        yield Problem(f"{path}{at.removesuffix('`')}", f"it does not fit a pod: {text.lower()}")
        return
    path = f"{path}.spec"
    if pod.restart_policy not in {None, role.policy}:
        text = f"{pod.restart_policy} is not possible, {role.why}; write {role.policy}"
        yield Problem(f"{path}.restartPolicy", text)
    yield from _container_problems(path, pod, role.container)
    for name in HOST_NAME_FIELDS:
        if getattr(pod, name):
            text = "the host name must be the one in the hostfile; remove the field"
            yield Problem(f"{path}.{name}", text)
    yield from _pod_problems(path, pod, role, spec)
    if role.container == MASTER_CONTAINER and spec.one_shot is not None:
        yield from _command_problems(path, pod)


def _container_problems(path: str, pod: _Pod, container: str) -> Iterator[Problem]:
    names = [each.name for each in pod.containers]
    if not names:
        yield Problem(f"{path}.containers", "at least one container is required")
    elif container not in names and names != [""]:
        there = ", ".join(map(repr, names))
        yield Problem(
            f"{path}.containers",
            f"there is no container named '{container}', only {there}; rename the one that MPI"
            " processes run in",
        )
    for name, count in Counter(names).items():
        if count > 1:
            text = f"{count} containers are named '{name}'; give each a name of its own"
            yield Problem(f"{path}.containers", text)


def _pod_problems(path: str, pod: _Pod, role: _Role, spec: MPIClusterSpec) -> Iterator[Problem]:
    """Return containers without image, and conflicts with what the operator adds to a pod."""
    for index, volume in enumerate(pod.volumes or ()):
        if volume.name.startswith(OWN_PREFIX):
            yield Problem(
                f"{path}.volumes[{index}].name",
                f"names that begin with '{OWN_PREFIX}' are taken; choose another one",
            )
    fetching = {
        f"{code.name}{suffix}"
        for code in spec.code_sync
        for suffix in (FETCH_SUFFIX, UPDATE_SUFFIX)
        if suffix == FETCH_SUFFIX or code.update_seconds is not None
    }
    for group, containers in (
        ("initContainers", pod.init_containers or ()),
        ("containers", pod.containers),
    ):
        for index, container in enumerate(containers):
            where = f"{path}.{group}[{index}]"
            if not container.image:
                yield Problem(f"{where}.image", "it is required; write the name of an image")
            if container.name in fetching:
                text = "the container that fetches spec.codeSync has this name; choose another one"
                yield Problem(f"{where}.name", text)
            if container.name == KUBECTL_CONTAINER and spec.transport == EXEC:
                text = "the container that brings kubectl has this name; choose another one"
                yield Problem(f"{where}.name", text)
            main = container.name in {role.container, ""}
            yield from _mount_problems(where, container, spec, main=main)


def _mount_problems(
    where: str, container: _Container, spec: MPIClusterSpec, *, main: bool
) -> Iterator[Problem]:
    codes = spec.code_sync if main else []
    there = {_directory(code.mount_path): f"{code.mount_path} of spec.codeSync" for code in codes}
    for number, mount in enumerate(container.volume_mounts or ()):
        own = _own_mount(mount.mount_path, spec) or there.get(_directory(mount.mount_path))
        if own is not None:
            yield Problem(
                f"{where}.volumeMounts[{number}].mountPath",
                f"{own} is taken; mount the volume somewhere else",
            )


def _directory(path: str) -> str:
    return path.rstrip("/")


def _own_mount(path: str, spec: MPIClusterSpec) -> str | None:
    """Return the directory of ours that a path is, or is in."""
    path = f"{_directory(path)}/"
    return next((own for own in MOUNTS[spec.transport] if path.startswith(f"{own}/")), None)


def _command_problems(path: str, pod: _Pod) -> Iterator[Problem]:
    for index, container in enumerate(pod.containers):
        if container.name in {MASTER_CONTAINER, ""}:
            for name, given in (("command", container.command), ("args", container.args)):
                if given:
                    yield Problem(
                        f"{path}.containers[{index}].{name}",
                        "the container runs spec.master.oneShot.command; remove one of them",
                    )


# -- code -----------------------------------------------------------------------------------------


def _code_sync_problems(spec: MPIClusterSpec) -> Iterator[Problem]:
    entries = spec.code_sync
    names = Counter(code.name for code in entries)
    mounts: dict[str, str] = {}
    for index, code in enumerate(entries):
        path = f"spec.codeSync[{index}]"
        if names[code.name] > 1:
            text = f"{names[code.name]} entries are named '{code.name}'; give each its own name"
            yield Problem(f"{path}.name", text)
        if (wrong := _address_problem(code.repository)) is not None:
            yield Problem(f"{path}.repository", wrong)
        if code.update_seconds is not None and re.search(COMMIT, code.branch or ""):
            text = "it has no use, because the branch is a commit, which never changes; remove it"
            yield Problem(f"{path}.updateSeconds", f"{text}, or write the name of a branch")
        if code.sub_path is not None and not f"{code.sub_path}/".startswith(f"{code.name}/"):
            below = code.sub_path.strip("/").removeprefix(f"{code.name}/")
            text = f"{SUB_PATH_NEEDS}; write {code.name}/{below}"
            yield Problem(f"{path}.subPath", text)
        if ".." in (code.sub_path or "").split("/"):
            yield Problem(f"{path}.subPath", "'..' is not possible; name a directory of the code")
        if (own := _own_mount(code.mount_path, spec)) is not None:
            yield Problem(f"{path}.mountPath", f"{own} is taken; mount the code somewhere else")
        place = _directory(code.mount_path)
        if not place or ":" in place:
            text = "neither / nor a path with ':' can be a mount; name a directory"
            yield Problem(f"{path}.mountPath", text)
        if place in mounts:
            text = f"'{mounts[place]}' is mounted there, too; choose another directory"
            yield Problem(f"{path}.mountPath", text)
        mounts.setdefault(place, code.name)


def _address_problem(repository: str) -> str | None:
    """Return what is wrong with an address; never with any part of it, which may be a secret."""
    if re.search(HTTP_LOGIN, repository) or re.search(LOGIN, repository):
        return NO_SECRETS
    if not re.search(SERVER, repository):
        return NO_SERVER
    try:
        url = urlsplit(repository)
        if "://" in repository and url.port is None and not url.netloc and url.scheme != "file":
            return NO_SERVER
    except ValueError:  # perhaps a password with a '/'
        return "it is not a URL: what follows the host's ':' is not a number; correct the port"
    return None


# -- the parts of a template that the planner reads; the API server checks the rest of it ---------


class _Mount(Struct, rename="camel"):
    mount_path: str = ""


class _Volume(Struct):
    name: str = ""


class _Resources(Struct):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _Container(Struct, rename="camel"):
    name: str = ""
    image: str | None = None
    env: list[dict[str, Any]] | None = None
    resources: _Resources | None = None
    volume_mounts: list[_Mount] | None = None
    command: list[str] | None = None
    args: list[str] | None = None


class _Pod(Struct, rename="camel"):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    volumes: list[_Volume] | None = None
    restart_policy: str | None = None
    hostname: str | None = None
    subdomain: str | None = None
    hostNetwork: bool | None = None  # noqa: N815 - named as in the API, to be reported
    setHostnameAsFQDN: bool | None = None  # noqa: N815


class _Metadata(Struct):
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class _Template(Struct):
    spec: _Pod
    metadata: _Metadata | None = None
