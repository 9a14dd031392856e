"""Jobs in queues, with stand-ins for the definitions of Kueue that accept any field.

What counts is what the operator asks for. What Kueue does is done by hand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import queues_api

from .faults.jobs import work
from .install_support import User, elastic_job
from .placing import is_served

if TYPE_CHECKING:
    from hack.cluster import RealCluster

WORKLOADS = "workloads.v1beta2.kueue.x-k8s.io"


def queued(cluster: RealCluster, user: User) -> None:
    """Queue jobs of each class of priority; admit one, evict it, and take one out of its queue."""
    for document in queues_api.definitions():
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(document))
    for resource in queues_api.RESOURCES:
        user.until(f"{resource.plural} are served", lambda: is_served(user, resource))  # noqa: B023
    for document in queues_api.objects():
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(document))
    names = ("ranked", "named", "plain")
    for name in names:
        user.create(_job(name))
    user.until("the jobs are queued", lambda: _of(user, "ranked") and _of(user, "plain"))
    # The flavor of the stand-in would keep the pods from every node.
    cluster.kubectl("patch", "resourceflavor", queues_api.FLAVOR, "--type=merge", "-p",
                    '{"spec": {"nodeLabels": null}}')  # fmt: skip
    _say(user, "ranked", queues_api.admission(_of(user, "ranked")))
    user.until("its pods are ready", lambda: _said(user, "ranked", "PodsReady") == "True")
    conditions = _of(user, "ranked")["status"]["conditions"]
    evicted = queues_api.condition("Evicted", "True", "Preempted", "for another")
    _say(user, "ranked", {"conditions": [*conditions, evicted]})
    user.until("the quota is back", lambda: _said(user, "ranked", "QuotaReserved") == "False")
    user.kubectl("label", "elasticjob", "plain", f"{queues_api.QUEUE}-")
    user.until("plain has left", lambda: not _of(user, "plain"))
    for name in names:
        user.kubectl("delete", "elasticjob", name)
    user.until("no Workload is left", lambda: not user.items(WORKLOADS))
    for resource in queues_api.RESOURCES:
        definition = f"{resource.plural}.{resource.group}"
        cluster.kubectl("delete", "customresourcedefinition", definition)


def _job(name: str) -> dict[str, Any]:
    job = elastic_job(name, work(600), workers=1)
    labels = {queues_api.QUEUE: "all"}
    if name == "ranked":
        labels[queues_api.PRIORITY_CLASS] = queues_api.CLASS
    if name == "named":
        pod = job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
        pod["priorityClassName"] = "nobody"
    job["metadata"]["labels"] = labels
    return job


def _of(user: User, job: str) -> dict[str, Any]:
    """The Workload of a job; empty if there is none."""
    for each in user.items(WORKLOADS):
        (owner,) = each["metadata"]["ownerReferences"]
        if owner["name"] == job:
            found: dict[str, Any] = each
            return found
    return {}


def _said(user: User, job: str, kind: str) -> str:
    return queues_api.said(_of(user, job)).get(kind, "")


def _say(user: User, job: str, status: dict[str, Any]) -> None:
    name = _of(user, job)["metadata"]["name"]
    patch = json.dumps({"status": status})
    user.kubectl("patch", WORKLOADS, name, "--subresource=status", "--type=merge", "-p", patch)
