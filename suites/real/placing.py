"""Jobs whose pods a scheduler places together, with the APIs of those that are installed.

Their definitions are stand-ins that accept any field: what counts is what the operator asks for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hack.cluster.processes import NotReady

import gangs_api
from traincrew.engine.resources import Resource

from .faults.jobs import work
from .install_support import User, elastic_job

if TYPE_CHECKING:
    from hack.cluster import RealCluster

VOLCANO, KAI, COSCHEDULING = (
    Resource(group, version, "podgroups", "PodGroup")
    for group, version in (
        ("scheduling.volcano.sh", "v1beta1"),
        ("scheduling.run.ai", "v2alpha2"),
        ("scheduling.x-k8s.io", "v1alpha1"),
    )
)


def placed_together(cluster: RealCluster, user: User) -> None:
    """Create, resize and delete a gang with each scheduler.

    The operator looks up which APIs are served with the first gang.
    """
    for resource in (VOLCANO, KAI, COSCHEDULING):
        define(cluster, user, resource)
    placed_by(user, VOLCANO, "volcano")
    placed_by(user, KAI, "kai-scheduler")
    placed_by(user, COSCHEDULING)
    for resource in (VOLCANO, KAI, COSCHEDULING):
        remove(cluster, user, resource)


def define(cluster: RealCluster, user: User, resource: Resource) -> None:
    """Serve a kind of PodGroups."""
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(gangs_api.definition(resource)))
    user.until(f"{resource.group} is served", lambda: is_served(user, resource))


def remove(cluster: RealCluster, user: User, resource: Resource) -> None:
    """Serve a kind of PodGroups no longer."""
    name = f"{resource.plural}.{resource.group}"
    cluster.kubectl("delete", "customresourcedefinition", name)
    user.until(f"{resource.group} is gone", lambda: not is_served(user, resource))


def is_served(user: User, resource: Resource) -> bool:
    """Whether objects of a resource can be listed."""
    path = f"/apis/{resource.group}/{resource.version}"
    if resource.namespaced:
        path += f"/namespaces/{user.namespace}"
    try:
        user.kubectl("get", "--raw", f"{path}/{resource.plural}")
    except NotReady:
        return False
    return True


def placed_by(user: User, resource: Resource, scheduler: str = "") -> None:
    """Create a gang, and change its size while it has no pods."""
    job = f"gang-{resource.version}"
    kind = f"{resource.plural}.{resource.version}.{resource.group}"
    manifest = elastic_job(job, work(600), workers=2)
    manifest["spec"] |= {"minReplicas": 1, "schedulingPolicy": {"minAvailable": 2}}
    if scheduler:
        template = manifest["spec"]["replicaSpecs"]["Worker"]["template"]
        template["spec"]["schedulerName"] = scheduler

    def sized(wanted: int) -> bool:
        found = gangs_api.owned(user.items(kind), job)
        return found is not None and gangs_api.size(found) == wanted

    def edit(**spec: object) -> None:
        patch = json.dumps({"spec": spec})
        user.kubectl("patch", "elasticjob", job, "--type=merge", "-p", patch)

    user.create(manifest)
    user.until(f"the group of {job}", lambda: sized(2))
    user.until(f"pods of {job}", lambda: len(user.items("pods", "-l", f"job-name={job}")) == 2)
    edit(suspend=True)
    user.until(f"{job} has no pods", lambda: not user.items("pods", "-l", f"job-name={job}"))
    edit(suspend=False, schedulingPolicy={"minAvailable": 1})
    user.until(f"the smaller group of {job}", lambda: sized(1))
    user.kubectl("delete", "elasticjob", job)
