"""Pods with the network of their node resolve the names that their programs are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from plan.chainerjob.world import example as chainer_example
from plan.elasticjob.world import elastic
from plan.goldens import owner_of
from plan.mxjob.manifests import distributed
from plan.world import HELPER_IMAGE
from traincrew.api.kinds.chainerjob import types as chainerjob
from traincrew.api.kinds.elasticjob import types as elasticjob
from traincrew.api.kinds.mxjob import types as mxjob
from traincrew.plan.chainerjob import children as chainer_children
from traincrew.plan.elasticjob import children as elastic_children
from traincrew.plan.mxjob import children as mx_children
from traincrew.plan.shared.replicas.places import places
from traincrew.plan.shared.templates import podtemplate

if TYPE_CHECKING:
    from collections.abc import Callable

UID = "8c2f4f1e-93a2-4d1f-8a86-4d2f1f1d4b10"


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        # What `kubectl get -o yaml` shows of a template where nothing was written.
        ({"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
        ({"hostNetwork": True, "dnsPolicy": "None"}, "None"),
        ({"hostNetwork": False}, None),
        ({"dnsPolicy": "ClusterFirst"}, "ClusterFirst"),
    ],
)
def test_the_policy_of_a_template(spec: dict[str, Any], policy: str | None) -> None:
    made = podtemplate.with_cluster_names({"metadata": {}, "spec": spec})
    assert made["spec"].get("dnsPolicy") == policy


def of_mxjob(fields: dict[str, Any]) -> dict[str, Any]:
    job = distributed(RuntimeId="abcd")
    for entry in job["spec"]["replicaSpecs"]:
        entry["template"]["spec"] |= fields
    spec = mxjob.decode(job["spec"])
    place = mx_children.Place("WORKER", 0)
    replica = next(each for each in spec.replica_specs if each.mx_replica_type == "WORKER")
    document = mx_children.job(
        owner_of(job, UID), spec, "abcd", place, replica=replica, attempt="1"
    )
    made: dict[str, Any] = document["spec"]["template"]["spec"]
    return made


def of_elasticjob(fields: dict[str, Any]) -> dict[str, Any]:
    job = elastic()
    job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"] |= fields
    spec = elasticjob.decode(job["spec"])
    place = next(places(elastic_children.replicas(spec)))
    made: dict[str, Any] = elastic_children.pod(owner_of(job, UID), spec, place)["spec"]
    return made


def of_chainerjob(fields: dict[str, Any]) -> dict[str, Any]:
    job = chainer_example("distributed")
    for workers in job["spec"]["workerSets"].values():
        workers["template"]["spec"] |= fields
    spec = chainerjob.decode(job["spec"])
    name = next(iter(spec.worker_sets))
    document = chainer_children.workers(owner_of(job), spec, name, HELPER_IMAGE)
    made: dict[str, Any] = document["spec"]["template"]["spec"]
    return made


@pytest.mark.parametrize("made", [of_mxjob, of_elasticjob, of_chainerjob])
def test_every_kind_that_allows_it(made: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """MPIClusters do not: `hostNetwork` changes the host names that their hostfile has."""
    assert made({"hostNetwork": True})["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert made({}).get("dnsPolicy") is None
