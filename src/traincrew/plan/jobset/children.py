"""The children of a JobSet, as documents.

Names, labels and annotations are the contract of JobSet 0.12.0 (``pkg/controllers/
jobset_controller.go``), which users' programs read by the downward API. For a JobSet S with a
replicated job R, and i from 0:

    Service S        headless: pods are reached as S-R-i-<pod index>.S
    Job S-R-i
    PersistentVolumeClaim T-S for each template T of its volume claim policies
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.api.kinds.jobset.claims import claim_name
from traincrew.api.kinds.jobset.types import INDEXED, JobSetSpec, ReplicatedJob
from traincrew.plan.shared import reporting
from traincrew.plan.shared.templates import podtemplate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.api.kinds.jobset.claims import ClaimTemplate
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint

COMPONENT = "jobset"
"""Source component of events, as of JobSet's own controller."""
_PREFIX = "jobset.sigs.k8s.io"
LABEL_NAME = f"{_PREFIX}/jobset-name"
LABEL_UID = f"{_PREFIX}/jobset-uid"
LABEL_REPLICATED = f"{_PREFIX}/replicatedjob-name"
LABEL_REPLICAS = f"{_PREFIX}/replicatedjob-replicas"
LABEL_ALL_REPLICAS = f"{_PREFIX}/global-replicas"
LABEL_INDEX = f"{_PREFIX}/job-index"
LABEL_ALL_INDEX = f"{_PREFIX}/job-global-index"
LABEL_KEY = f"{_PREFIX}/job-key"
LABEL_GROUP = f"{_PREFIX}/group-name"
LABEL_GROUP_REPLICAS = f"{_PREFIX}/group-replicas"
LABEL_GROUP_INDEX = f"{_PREFIX}/job-group-index"
LABEL_ATTEMPT = f"{_PREFIX}/restart-attempt"
LABEL_JOB_ATTEMPT = f"{_PREFIX}/job-restart-attempt"
LABEL_COORDINATOR = f"{_PREFIX}/coordinator"
LABEL_POD_INDEX = "batch.kubernetes.io/job-completion-index"

_ALPHA = f"alpha.{_PREFIX}"
EXCLUSIVE = f"{_ALPHA}/exclusive-topology"
"""Annotation with the label of nodes whose values are each for one Job alone."""
NODE_SELECTOR = f"{_ALPHA}/node-selector"
"""Annotation of those that have labelled their nodes for that by themselves."""
NAMESPACED_JOB = f"{_ALPHA}/namespaced-job"
NO_SCHEDULE = f"{_ALPHA}/no-schedule"

Document = dict[str, Any]


class Attempt(Struct, frozen=True, kw_only=True):
    """How often what a Job belongs to was restarted.

    Attributes:
        whole: Restarts of the JobSet.
        single: Restarts of this Job; None if there are none in this JobSet.
    """

    whole: int = 0
    single: int | None = None


def job_name(jobset: str, replicated: str, index: int) -> str:
    """Return the name of a Job."""
    return f"{jobset}-{replicated}-{index}"


def coordinator(jobset: str, spec: JobSetSpec) -> str:
    """Return the address of the pod that coordinates; empty if none does."""
    found = spec.coordinator
    if found is None:
        return ""
    host = job_name(jobset, found.replicated_job, found.job_index or 0)
    return f"{host}-{found.pod_index or 0}.{spec.subdomain(jobset)}"


def service(owner: Owner, spec: JobSetSpec) -> Document:
    """Return the Service by which pods find each other."""
    network = spec.network
    early = network is None or network.publish_not_ready_addresses is not False
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": spec.subdomain(owner.name),
            "namespace": owner.namespace,
            "labels": {LABEL_NAME: owner.name},
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {LABEL_NAME: owner.name},
            "publishNotReadyAddresses": early,
        },
    }


def claim(owner: Owner, template: ClaimTemplate, *, deletes: bool) -> Document:
    """Return a claim of volumes that pods of all Jobs may mount.

    Args:
        owner: The JobSet.
        template: What the claim is created from.
        deletes: Whether it is deleted with the JobSet.
    """
    given = template.metadata
    metadata: Document = {
        "name": claim_name(owner.name, given.name),
        "namespace": owner.namespace,
        "labels": {**(given.labels or {}), LABEL_NAME: owner.name},
    }
    if given.annotations:
        metadata["annotations"] = given.annotations
    if deletes:
        metadata["ownerReferences"] = [owner.owner_reference()]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": template.spec,
    }


def _volumes(owner: Owner, spec: JobSetSpec, replicated: ReplicatedJob) -> list[Document]:
    """Return the volumes of the claims that a replicated job mounts."""
    names = [each.metadata.name for each in spec.claims if replicated.mounts(each.metadata.name)]
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": claim_name(owner.name, name)}}
        for name in names
    ]


def labels(
    owner: Owner, spec: JobSetSpec, replicated: ReplicatedJob, index: int, attempt: Attempt
) -> dict[str, str]:
    """Return the labels of a Job and its pods, which they have as annotations as well."""
    before = spec.replicated_jobs[: spec.replicated_jobs.index(replicated)]
    group = [each for each in spec.replicated_jobs if each.group == replicated.group]
    name = job_name(owner.name, replicated.name, index)
    key = hashlib.sha1(f"{owner.namespace}/{name}".encode(), usedforsecurity=False).hexdigest()
    found = {
        LABEL_NAME: owner.name,
        LABEL_UID: owner.uid,
        LABEL_REPLICATED: replicated.name,
        LABEL_ATTEMPT: str(attempt.whole),
        LABEL_REPLICAS: str(replicated.count),
        LABEL_ALL_REPLICAS: str(spec.total),
        LABEL_INDEX: str(index),
        LABEL_KEY: key,
        LABEL_ALL_INDEX: str(sum(each.count for each in before) + index),
        LABEL_GROUP: replicated.group,
        LABEL_GROUP_REPLICAS: str(sum(each.count for each in group)),
        LABEL_GROUP_INDEX: str(
            sum(each.count for each in before if each.group == replicated.group) + index
        ),
    }
    if attempt.single is not None:
        found[LABEL_JOB_ATTEMPT] = str(attempt.single)
    if address := coordinator(owner.name, spec):
        found[LABEL_COORDINATOR] = address
    return found


def _exclusive(*annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of exclusive placement; the last that asks for it decides."""
    found: dict[str, str] = {}
    for each in annotations:
        if EXCLUSIVE in each:
            found |= {name: each[name] for name in (EXCLUSIVE, NODE_SELECTOR) if name in each}
    return found


class JobSet(Struct, frozen=True, kw_only=True):
    """What Jobs are created from.

    Attributes:
        owner: The JobSet.
        annotations: Its annotations.
        spec: Its spec; a suspended one has suspended Jobs.
        endpoint: Where programs report their progress.
    """

    owner: Owner
    annotations: dict[str, str]
    spec: JobSetSpec
    endpoint: Endpoint | None = None


def job(jobset: JobSet, replicated: ReplicatedJob, index: int, attempt: Attempt) -> Document:
    """Return a Job.

    Args:
        jobset: What it belongs to.
        replicated: The replicated job that it is one of.
        index: Its number there.
        attempt: How often it was restarted.
    """
    owner, spec = jobset.owner, jobset.spec
    name = job_name(owner.name, replicated.name, index)
    mine = labels(owner, spec, replicated, index, attempt)
    metadata = replicated.template.get("metadata") or {}
    given = metadata.get("annotations") or {}
    exclusive = _exclusive(jobset.annotations, given)
    template = podtemplate.plain(replicated.job["template"])
    template = podtemplate.with_labels(template, mine)
    template = podtemplate.with_annotations(template, {**mine, **exclusive})
    template = podtemplate.with_default(template, restartPolicy="OnFailure")
    if spec.has_host_names:
        template = podtemplate.with_spec(template, subdomain=spec.subdomain(owner.name))
    template = _placed(template, exclusive, f"{owner.namespace}_{name}")
    if volumes := _volumes(owner, spec, replicated):
        template = podtemplate.with_volumes(template, volumes)
    template = podtemplate.with_cluster_names(template)
    template = reporting.with_reporting(template, jobset.endpoint, owner, 0)
    template = podtemplate.with_log_fallback(template)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": {**(metadata.get("labels") or {}), **mine},
            "annotations": {**given, **mine, **exclusive},
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": {
            "completionMode": INDEXED,
            **replicated.job,
            "suspend": bool(spec.suspend),
            "template": template,
        },
    }


def _placed(template: Document, exclusive: Mapping[str, str], job: str) -> Document:
    """Return the template of pods that have a part of the nodes to themselves.

    JobSet's webhook gives the first pod of a Job the two terms, and a node selector to each other
    pod when the first has a node. Here every pod has the terms, which place them likewise.
    """
    if EXCLUSIVE not in exclusive:
        return template
    pod = template["spec"]
    if NODE_SELECTOR in exclusive:
        toleration = {"key": NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}
        return podtemplate.with_spec(
            template,
            nodeSelector={**(pod.get("nodeSelector") or {}), NAMESPACED_JOB: job},
            tolerations=[*(pod.get("tolerations") or []), toleration],
        )
    key = template["metadata"]["labels"][LABEL_KEY]
    mine: list[Document] = [{"key": LABEL_KEY, "operator": "In", "values": [key]}]
    others: list[Document] = [
        {"key": LABEL_KEY, "operator": "Exists"},
        {"key": LABEL_KEY, "operator": "NotIn", "values": [key]},
    ]
    affinity = dict(pod.get("affinity") or {})
    for name, expressions in (("podAffinity", mine), ("podAntiAffinity", others)):
        affinity[name] = _with_term(affinity.get(name) or {}, expressions, exclusive[EXCLUSIVE])
    return podtemplate.with_spec(template, affinity=affinity)


def _with_term(affinity: Document, expressions: list[Document], topology: str) -> Document:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {
        "labelSelector": {"matchExpressions": expressions},
        "topologyKey": topology,
        "namespaceSelector": {},
    }
    return {**affinity, required: [*(affinity.get(required) or []), term]}
