"""Validates an ElasticJob: each problem names the field, what is wrong, and the fix.

The schema's rules are repeated here, because a job may have been stored before the schema was
installed.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from traincrew.api import scheduling
from traincrew.api.kind import JOB_NAME
from traincrew.api.kinds.elasticjob.definition import FIT_NEEDS_ROOM
from traincrew.api.kinds.elasticjob.types import (
    C10D,
    MAX_NAME_AND_TYPE,
    TYPE_NAME,
    WORKER,
    ElasticJobSpec,
)
from traincrew.api.meta import ObjectMeta, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def problems(metadata: ObjectMeta, spec: ElasticJobSpec) -> list[Problem]:
    """Return everything that keeps a job from running, each with its field and the fix."""
    found = list(_name_problems(metadata.name, spec))
    if WORKER not in spec.replica_specs:
        text = f"the key '{WORKER}' is required: those pods train"
        return [*found, Problem("spec.replicaSpecs", text)]
    found += _size_problems(spec)
    total = sum(replica.replicas for replica in spec.replica_specs.values())
    found += scheduling.problems(spec.scheduling_policy, "spec.schedulingPolicy", total)
    if spec.hosted and spec.rdzv_backend not in {None, C10D}:
        found.append(
            Problem(
                "spec.rdzvEndpoint",
                f'the rendezvous "{spec.rdzv_backend}" is not served by the job; write host:port of'
                f" the one to use, or leave rdzvBackend out for {C10D}",
            )
        )
    for name, replica in sorted(spec.replica_specs.items()):
        path = f"spec.replicaSpecs.{name}.template"
        found += _template_problems(path, replica.template)
    return found


def _name_problems(name: str, spec: ElasticJobSpec) -> Iterator[Problem]:
    if not re.fullmatch(JOB_NAME, name):
        yield Problem(
            "metadata.name",
            "it becomes part of host names: it must begin with a letter and have only lower case"
            " letters, digits and '-'; choose another name",
        )
    for key in sorted(spec.replica_specs):
        if not re.fullmatch(TYPE_NAME, key):
            yield Problem(
                f"spec.replicaSpecs.{key}",
                "the key must be letters, digits and '-', and begin and end with a letter or digit",
            )
        if len(name) + len(key) > MAX_NAME_AND_TYPE:
            yield Problem(
                f"spec.replicaSpecs.{key}",
                f"the key and metadata.name have {len(name) + len(key)} characters; at most"
                f" {MAX_NAME_AND_TYPE} are possible, because pods are named <name>-<key>-<index>;"
                " shorten one of them",
            )
    for lower, count in Counter(key.lower() for key in spec.replica_specs).items():
        if count > 1:
            yield Problem(
                "spec.replicaSpecs",
                f"{count} keys are '{lower}' in lower case, as in the names of pods; rename one",
            )


def _size_problems(spec: ElasticJobSpec) -> Iterator[Problem]:
    low, high, replicas = spec.min_replicas, spec.max_replicas, spec.workers.replicas
    if low is not None and high is not None and low > high:
        yield Problem("spec.minReplicas", f"{low} is more than maxReplicas, {high}; lower it")
    elif low is not None and replicas < low:
        yield Problem(
            f"spec.replicaSpecs.{WORKER}.replicas",
            f"{replicas} is less than minReplicas, {low}; raise it or lower minReplicas",
        )
    elif high is not None and replicas > high:
        yield Problem(
            f"spec.replicaSpecs.{WORKER}.replicas",
            f"{replicas} is more than maxReplicas, {high}; lower it or raise maxReplicas",
        )
    elif spec.fit_available is not None and spec.smallest >= spec.largest:
        yield Problem("spec.fitAvailable", FIT_NEEDS_ROOM)


def _template_problems(path: str, template: dict[str, Any]) -> Iterator[Problem]:
    containers = template.get("spec", {}).get("containers", [])
    if not containers:
        yield Problem(f"{path}.spec.containers", "at least one container is required")
    names = Counter(container.get("name", "") for container in containers)
    for name, count in names.items():
        if count > 1:
            yield Problem(f"{path}.spec.containers", f"{count} containers are named '{name}'")
