"""The children of a TrainJob, as documents.

Names, labels, variables and files are the contract of Trainer 2.2.0 (``pkg/runtime``), which users'
programs rely on. For a job J:

    JobSet J                 made of the runtime's template
    Secret J-mpi-ssh-auth    with MPI: a pair of ssh keys
    ConfigMap J-mpi-hostfile with MPI: the hosts
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.api.kinds.trainjob.runtime import DATASET, MODEL, TRAINER, Runtime
from traincrew.api.kinds.trainjob.types import NODE, TrainJobSpec
from traincrew.plan.shared import reporting
from traincrew.plan.shared.model import FINGERPRINT
from traincrew.plan.shared.templates import podtemplate
from traincrew.plan.shared.writes import digest
from traincrew.plan.trainjob import patches
from traincrew.plan.trainjob.podsets import PodSet, variable
from traincrew.plan.trainjob.policies import HOSTFILE, HOSTS, KEYS, Policies

if TYPE_CHECKING:
    from traincrew.api.kinds.trainjob.types import Step
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint

COMPONENT = "trainjob-controller"
"""The source component of events."""
JOB_SETS = ("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LABEL_NAME = "jobset.sigs.k8s.io/jobset-name"
"""Label of Jobs and pods, whose value is the name of the JobSet, and so of the job."""
LABEL_ROLE = "jobset.sigs.k8s.io/replicatedjob-name"
LABEL_INDEX = "batch.kubernetes.io/job-completion-index"

Document = dict[str, Any]


class Children(NamedTuple):
    """The children of a job.

    Attributes:
        jobset: The JobSet.
        secret: The Secret without its keys; None without MPI.
        config: The ConfigMap of the launcher; None without MPI.
    """

    jobset: Document
    secret: Document | None = None
    config: Document | None = None


def children(
    owner: Owner, spec: TrainJobSpec, runtime: Runtime, endpoint: Endpoint | None = None
) -> Children:
    """Return the children of a job.

    Args:
        owner: The job.
        spec: Its spec; a suspended one has a suspended JobSet.
        runtime: Its runtime.
        endpoint: Where its program reports its progress.
    """
    given = runtime.spec.template
    labels, annotations = given.metadata.labels, given.metadata.annotations
    metadata: Document = {"labels": labels, "annotations": annotations}
    template = patches.apply({"metadata": metadata, "spec": copy.deepcopy(given.spec)}, spec)
    jobs = copy.deepcopy(template["spec"]["replicatedJobs"])
    sets = [PodSet(job) for job in jobs]
    policies = Policies(owner.name, spec, runtime, sets)
    policies.apply()
    command = policies.tune_command()
    for each in sets:
        each.set_count()
        _initialized(each, spec)
        _trained(each, spec, runtime, command)
        _completed(each, owner, endpoint)
    content = {**template["spec"], "replicatedJobs": jobs, "suspend": spec.suspend}
    annotations = template["metadata"]["annotations"]
    jobset = _document(
        "jobset.x-k8s.io/v1alpha2", "JobSet", owner.name, owner, spec=content,
    )  # fmt: skip
    jobset["metadata"]["labels"] = {**template["metadata"]["labels"], LABEL_NAME: owner.name}
    jobset["metadata"]["annotations"] = {**annotations, FINGERPRINT: fingerprint(spec, runtime)}
    policy = runtime.spec.policy.mpi
    if policy is None:
        return Children(jobset)
    subdomain = (given.spec.get("network") or {}).get("subdomain") or owner.name
    hosts = {HOSTFILE: policies.hostfile(policy, subdomain)}
    keys = {"type": "kubernetes.io/ssh-auth", "immutable": True}
    return Children(
        jobset,
        _document("v1", "Secret", f"{owner.name}-{KEYS}", owner, **keys),
        _document("v1", "ConfigMap", hosts_name(owner.name), owner, data=hosts),
    )


def hosts_name(job: str) -> str:
    """Return the name of the ConfigMap with the hosts of MPI."""
    return f"{job}-{HOSTS}"


def fingerprint(spec: TrainJobSpec, runtime: Runtime) -> str:
    """Return the hash of what job and runtime say about the JobSet.

    Not of the JobSet that is made: a new version of the operator must not change one.
    """
    return digest(spec.trainer, spec.initializer, spec.runtime_patches, runtime.spec)


def _document(api_version: str, kind: str, name: str, owner: Owner, **content: Any) -> Document:
    metadata = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {LABEL_NAME: owner.name},
        "ownerReferences": [owner.owner_reference()],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _initialized(pods: PodSet, spec: TrainJobSpec) -> None:
    """Let an initializer download what the job says."""
    wanted = spec.initializer
    if pods.step not in {DATASET, MODEL}:
        return
    pods.document["replicas"] = 1
    step: Step | None = None
    if wanted is not None:
        step = wanted.dataset if pods.step == DATASET else wanted.model
    container = pods.container(pods.step)
    if step is None or container is None:
        return
    if step.storage_uri is not None:
        container.add_env([variable("STORAGE_URI", step.storage_uri)])
    container.add_env(step.env or [])
    if step.secret_ref is not None:
        source = {"secretRef": {"name": step.secret_ref.name}}
        container.document.setdefault("envFrom", []).append(source)


def _trained(pods: PodSet, spec: TrainJobSpec, runtime: Runtime, command: list[str] | None) -> None:
    """Let a node run what the job says."""
    policy, trainer = runtime.spec.policy.mpi, spec.trainer
    is_trainer = pods.step == TRAINER
    if is_trainer:
        pods.document["replicas"] = 1
    also = policy is not None and policy.run_launcher_as_node and pods.name == NODE
    container = pods.container(NODE)
    if trainer is None or container is None or not (is_trainer or also):
        return
    if is_trainer:
        given = {
            "image": trainer.image,
            "command": command if command is not None else trainer.command,
            "args": trainer.args,
        }
        container.document |= {name: value for name, value in given.items() if value is not None}
    asked = trainer.resources_per_node or {}
    kept = {name: asked[name] for name in ("limits", "requests") if asked.get(name)}
    if kept:
        container.document["resources"] = kept
    container.add_env(trainer.env or [])


def _completed(pods: PodSet, owner: Owner, endpoint: Endpoint | None) -> None:
    """Add to the pods what those of all kinds have."""
    template = podtemplate.plain(pods.job["template"])
    template = podtemplate.with_cluster_names(template)
    if pods.step == TRAINER:
        index = podtemplate.index_of(template, NODE)
        template = reporting.with_reporting(template, endpoint, owner, index)
    template = podtemplate.with_log_fallback(template)
    pods.job["template"] = {name: value for name, value in template.items() if value}
