"""Jobs whose pods are placed together, in clusters with and without a scheduler of gangs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from plan.elasticjob.world import ElasticWorld
from plan.mpicluster.manifests import interactive
from plan.mpicluster.world import MPIWorld
from plan.mxjob.world import MxWorld
from plan.world import World
from traincrew.plan.shared.schedulers import Served

PLANS = Path(__file__).parents[1]
COSCHEDULING = Served(name="coscheduling", version="v1alpha1")
KUBERNETES = Served(name="kubernetes", version="v1beta1")
ALPHA = Served(name="kubernetes", version="v1alpha2")
KAI = Served(name="kai", version="v2alpha2")
VOLCANO = Served(name="volcano", version="v1beta1")

MANIFESTS = {
    "ChainerJob": "chainerjob/examples/distributed.yaml",
    "ElasticJob": "elasticjob/examples/etcd.yaml",
    "MxJob": "mxjob/examples/distributed.yaml",
    "MPICluster": "",
}

WORLDS: dict[str, type[World]] = {
    "ElasticJob": ElasticWorld,
    "MxJob": MxWorld,
    "MPICluster": MPIWorld,
}


def manifest(kind: str, **policy: Any) -> dict[str, Any]:
    """A job of a kind with this ``schedulingPolicy``."""
    if kind == "MPICluster":
        return interactive(runPolicy={"schedulingPolicy": policy})
    found: dict[str, Any] = yaml.safe_load((PLANS / MANIFESTS[kind]).read_text())
    place = found["spec"] if kind == "ElasticJob" else found["spec"].setdefault("runPolicy", {})
    place["schedulingPolicy"] = policy
    return found


def world(kind: str, *served: Served, **policy: Any) -> World:
    """The world of such a job in a cluster with these schedulers, at rest."""
    found = WORLDS.get(kind, World)(manifest(kind, **policy))
    found.served = list(served)
    found.settle()
    return found


def group(found: World) -> dict[str, Any]:
    """The only PodGroup."""
    (one,) = found.groups.values()
    return one


def place(found: World, placed: int) -> None:
    """The cluster's scheduler finds room for some pods, and none for the others."""
    for number, name in enumerate(sorted(found.pods)):
        pod = found.pods[name]
        if number < placed:
            pod["spec"]["nodeName"] = "node-1"
            continue
        conditions = pod["status"].get("conditions", [])
        if any(each.get("reason") == "Unschedulable" for each in conditions):
            continue  # since when stays
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient cpu.",
                "lastTransitionTime": found.stamp(),
            }
        ]
