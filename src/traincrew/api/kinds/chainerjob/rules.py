"""Validates a ChainerJob: each problem names the field, what is wrong, and the fix.

The schema's rules are repeated here, because a job may have been stored before the schema was
installed.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from traincrew.api import scheduling
from traincrew.api.kinds.chainerjob.types import (
    BACKEND,
    CONTAINER,
    MASTER,
    MAX_NAME,
    MAX_NAME_AND_SET,
    MAX_WORKERS,
    OWN_MOUNTS,
    OWN_PREFIX,
    SET_NAME,
    ChainerJobSpec,
)
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator


def problems(metadata: ObjectMeta, spec: ChainerJobSpec) -> list[Problem]:
    """Return everything that keeps a job from running, each with its field and the fix."""
    found = list(_name_problems(metadata.name, spec))
    if spec.distributed and spec.backend not in {None, BACKEND}:
        text = f'backend:"{spec.backend}" not supported'
        found.append(Problem("spec.backend", f'{text}; write "{BACKEND}"', event=text))
    if spec.master.backoff_limit is not None and spec.run_policy.backoff_limit is not None:
        found.append(
            Problem(
                "spec.runPolicy.backoffLimit",
                "also set as spec.master.backoffLimit; remove one of them",
            )
        )
    workers = sum(workers.replicas for workers in spec.worker_sets.values())
    if workers > MAX_WORKERS:
        found.append(
            Problem("spec.workerSets", f"{workers} workers; at most {MAX_WORKERS} are possible")
        )
    found += scheduling.problems(
        spec.run_policy.scheduling_policy, "spec.runPolicy.schedulingPolicy", 1 + workers
    )
    found += _template_problems(
        "spec.master.template",
        spec.master.template,
        allowed=("Never", "OnFailure"),
        why="the master is a Job",
        distributed=spec.distributed,
    )
    if spec.distributed:
        found += _master_problems(spec.master.template.get("spec", {}))
    for name, workers_of in sorted(spec.worker_sets.items()):
        found += _template_problems(
            f"spec.workerSets.{name}.template",
            workers_of.template,
            allowed=("Always",),
            why="workers are a StatefulSet",
            distributed=True,
        )
    return found


SEPARATOR = "-workerset-"
"""What is between the name of a job and that of a set in the name of a StatefulSet."""


def _name_problems(name: str, spec: ChainerJobSpec) -> Iterator[Problem]:
    if len(name) > MAX_NAME:
        yield Problem(
            "metadata.name",
            f"{len(name)} characters; at most {MAX_NAME} are possible, because the Job is named"
            " <name>-master; choose a shorter name",
        )
    if spec.distributed and "." in name:
        yield Problem(
            "metadata.name",
            "the name of a distributed job becomes part of host names; replace '.' by '-'",
        )
    for key in sorted(spec.worker_sets):
        if not re.fullmatch(SET_NAME, key):
            yield Problem(
                f"spec.workerSets.{key}",
                "the key must be lower case letters, digits and '-', and begin and end with a"
                " letter or digit",
            )
        if SEPARATOR in key:
            yield Problem(
                f"spec.workerSets.{key}",
                f"the key contains '{SEPARATOR}', so that a set of another job may have a"
                " StatefulSet of the same name; choose another key",
            )
        if key == MASTER:
            yield Problem(
                f"spec.workerSets.{key}",
                f"'{MASTER}' is what the master is called in the status; choose another name",
            )
        if len(name) + len(key) > MAX_NAME_AND_SET:
            yield Problem(
                f"spec.workerSets.{key}",
                f"the key and metadata.name have {len(name) + len(key)} characters; at most"
                f" {MAX_NAME_AND_SET} are possible, because the StatefulSet is named"
                " <name>-workerset-<key>; shorten one of them",
            )


def _template_problems(
    path: str,
    template: dict[str, Any],
    *,
    allowed: tuple[str, ...],
    why: str,
    distributed: bool,
) -> Iterator[Problem]:
    pod = template.get("spec", {})
    containers = pod.get("containers", [])
    names = [container.get("name", "") for container in containers]
    if not containers:
        yield Problem(f"{path}.spec.containers", "at least one container is required")
    elif CONTAINER not in names and (distributed or len(names) > 1):
        yield Problem(
            f"{path}.spec.containers",
            f"one container must be named '{CONTAINER}': MPI processes run in it",
        )
    for name, count in Counter(names).items():
        if count > 1:
            yield Problem(f"{path}.spec.containers", f"{count} containers are named '{name}'")
    policy = pod.get("restartPolicy")
    if policy is not None and policy not in allowed:
        yield Problem(
            f"{path}.spec.restartPolicy",
            f"'{policy}' is not possible, {why}; write {' or '.join(allowed)}",
        )
    if distributed:
        yield from _clashes(path, pod)


def _clashes(path: str, pod: dict[str, Any]) -> Iterator[Problem]:
    """Return conflicts with what the operator adds to a distributed pod."""
    for index, volume in enumerate(pod.get("volumes", [])):
        if volume.get("name", "").startswith(OWN_PREFIX):
            yield Problem(
                f"{path}.spec.volumes[{index}].name",
                f"names beginning with '{OWN_PREFIX}' are reserved; choose another one",
            )
    for group in ("initContainers", "containers"):
        for index, container in enumerate(pod.get(group, [])):
            if group == "initContainers" and container.get("name", "").startswith(OWN_PREFIX):
                yield Problem(
                    f"{path}.spec.{group}[{index}].name",
                    f"names beginning with '{OWN_PREFIX}' are reserved; choose another one",
                )
            for mount_index, mount in enumerate(container.get("volumeMounts", [])):
                mount_path = mount.get("mountPath", "").rstrip("/")
                if f"{mount_path}/".startswith(f"{OWN_MOUNTS}/"):
                    yield Problem(
                        f"{path}.spec.{group}[{index}].volumeMounts[{mount_index}].mountPath",
                        f"{OWN_MOUNTS} is taken; mount the volume somewhere else",
                    )


def _master_problems(pod: dict[str, Any]) -> Iterator[Problem]:
    """Return fields with which a master cannot start ranks in the workers.

    Rank 0 is started locally only if the host name in the hostfile is the pod's own.
    """
    if pod.get("automountServiceAccountToken") is False:
        yield Problem(
            "spec.master.template.spec.automountServiceAccountToken",
            "ranks are started through the Kubernetes API, which needs the token; remove the field",
        )
    for name in ("hostname", "hostNetwork", "setHostnameAsFQDN"):
        if pod.get(name):
            yield Problem(
                f"spec.master.template.spec.{name}",
                "the host name of a distributed job's master must be its pod's name;"
                " remove the field",
            )
