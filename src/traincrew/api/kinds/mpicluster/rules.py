"""Validates an MPICluster: each problem names the field, what is wrong, and the fix.

The schema's rules are repeated here, because an object may have been stored before the schema was
installed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from traincrew.api import checks, scheduling
from traincrew.api.kinds.mpicluster import clusterchecks
from traincrew.api.kinds.mpicluster.codesync import FETCH_SUFFIX, UPDATE_SUFFIX
from traincrew.api.kinds.mpicluster.ssh import GIVEN_KEYS
from traincrew.api.kinds.mpicluster.transport import EXEC, KEYS_NEED_SSH, KUBECTL_CONTAINER
from traincrew.api.kinds.mpicluster.types import (
    CONVERT,
    INSTEAD,
    MASTER_CONTAINER,
    MASTER_POLICY_WHY,
    WORKER_CONTAINER,
    WORKER_POLICY_WHY,
)
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.expressions import Scope
    from traincrew.api.kinds.mpicluster.types import MPIClusterSpec

HOST_NAME_FIELDS = ("hostname", "subdomain", "hostNetwork", "setHostnameAsFQDN")
"""Fields of a pod that change the host name by which the hostfile lists it."""


def problems(metadata: ObjectMeta, spec: MPIClusterSpec) -> list[Problem]:
    """Return everything that keeps a cluster from running, each with its field and the fix."""
    document = {"metadata": {"name": metadata.name}, "spec": msgspec.to_builtins(spec)}
    scope = {"cluster": document}
    found = list(checks.problems(clusterchecks.NAME, scope))
    for key, given in _values_keys(spec).items():
        if given is not None:
            text = f"it is a key of kube-openmpi's values; write {INSTEAD[key]}, {CONVERT}"
            found.append(Problem(f"spec.{key}", text))
    found += checks.problems(clusterchecks.COMMAND, scope)
    master = _Role("master", MASTER_CONTAINER, "OnFailure", MASTER_POLICY_WHY)
    workers = _Role("workers", WORKER_CONTAINER, "Always", WORKER_POLICY_WHY)
    for role, template in ((master, spec.master.template), (workers, spec.workers.template)):
        found += _template_problems(role, template, spec, scope)
    if spec.ssh.key_secret_name is not None and spec.ssh.key_generation > 1:
        found.append(Problem("spec.ssh.keyGeneration", GIVEN_KEYS))
    found += checks.problems(clusterchecks.CODE, scope)
    found += _transport_problems(spec, scope)
    found += _scheduling_problems(spec)
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


def _scheduling_problems(spec: MPIClusterSpec) -> Iterator[Problem]:
    policy = spec.run_policy.scheduling_policy
    yield from scheduling.problems(
        policy, "spec.runPolicy.schedulingPolicy", 1 + spec.workers.replicas
    )
    if policy.wants_gang and spec.workers.pod_management_policy != "Parallel":
        yield Problem(
            "spec.workers.podManagementPolicy",
            "each worker would wait for the one before it, and schedulingPolicy makes that one wait"
            " for all; write Parallel",
        )


def _transport_problems(spec: MPIClusterSpec, scope: Scope) -> Iterator[Problem]:
    yield from checks.problems(clusterchecks.TRANSPORT, scope)
    if spec.transport != EXEC:
        return
    if spec.ssh.key_generation > 1:
        yield Problem("spec.ssh.keyGeneration", KEYS_NEED_SSH)
    pod = spec.master.template.get("spec")
    if isinstance(pod, dict) and pod.get("automountServiceAccountToken") is False:
        text = "with transport: exec the master needs its token; remove the field"
        yield Problem("spec.master.template.spec.automountServiceAccountToken", text)


# -- templates ------------------------------------------------------------------------------------


class _Role(Struct, frozen=True):
    """What a template must be like, by its role."""

    field: str
    container: str
    policy: str
    why: str


def _template_problems(
    role: _Role, given: dict[str, Any], spec: MPIClusterSpec, scope: Scope
) -> Iterator[Problem]:
    path = f"spec.{role.field}.template"
    if not given:
        yield Problem(path, "it is required; write the template of a pod")
        return
    try:
        pod = msgspec.convert(given, _Template).spec
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        yield Problem(f"{path}{at.removesuffix('`')}", f"not valid in a pod: {text.lower()}")
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
    yield from _pod_problems(path, pod, spec)
    yield from checks.problems(clusterchecks.pod(role.field, role.container), scope)
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


def _pod_problems(path: str, pod: _Pod, spec: MPIClusterSpec) -> Iterator[Problem]:
    """Return containers without image, and conflicts with what the operator adds to a pod."""
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


def _command_problems(path: str, pod: _Pod) -> Iterator[Problem]:
    for index, container in enumerate(pod.containers):
        if container.name in {MASTER_CONTAINER, ""}:
            for name, given in (("command", container.command), ("args", container.args)):
                if given:
                    yield Problem(
                        f"{path}.containers[{index}].{name}",
                        "the container runs spec.master.oneShot.command; remove one of them",
                    )


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
