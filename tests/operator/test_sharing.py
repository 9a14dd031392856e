"""Strings that repeat in thousands of cached objects are stored once, to save memory."""

from __future__ import annotations

import msgspec
import pytest

from plan.elasticjob.world import ElasticWorld, elastic
from traincrew.api.meta import CustomObject
from traincrew.engine.cache.sharing import sharer
from traincrew.operator.kinds import all_kinds
from traincrew.operator.options import OperatorOptions
from traincrew.plan.shared.views import ChildView, ObservedPod

VIEWS: list[type[msgspec.Struct]] = sorted(
    {CustomObject, *(view for kind in all_kinds(OperatorOptions()) for _, view in kind.children)},
    key=lambda view: view.__name__,
)


def cached(view: type[msgspec.Struct], document: object) -> msgspec.Struct:
    """A view as it is in a cache, every string of which was new."""
    decoded = msgspec.json.decode(msgspec.json.encode(document), type=view)
    sharer(view).whole(decoded)
    return decoded


def test_pods_of_a_job_share_what_is_the_same() -> None:
    world = ElasticWorld(elastic(2)).begin()
    for index in (0, 1):
        world.pod(index)["spec"]["nodeName"] = "a node of both"
    one, two = (cached(ObservedPod, world.pod(index)) for index in (0, 1))
    assert isinstance(one, ObservedPod)
    assert isinstance(two, ObservedPod)

    assert one.metadata.labels["job-name"] is two.metadata.labels["job-name"]
    assert one.metadata.owner_references[0].uid is two.metadata.owner_references[0].uid
    assert one.metadata.creation_timestamp is two.metadata.creation_timestamp
    assert one.spec.node_name is two.spec.node_name
    assert one.status.phase is two.status.phase
    assert one.status.conditions[0].type is two.status.conditions[0].type
    assert one.status.container_statuses[0].name is two.status.container_statuses[0].name


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_shares_what_metadata_repeats(view: type[ChildView]) -> None:
    owner = {"apiVersion": "a/v1", "kind": "Any", "name": "the-job", "uid": "the-uid-of-the-job"}
    metadata = {"namespace": "a-namespace", "labels": {"x": "a-label"}, "ownerReferences": [owner]}
    one, two = (cached(view, {"metadata": metadata}) for _ in range(2))
    assert isinstance(one, ChildView | CustomObject)
    assert isinstance(two, ChildView | CustomObject)

    assert one.metadata.namespace is two.metadata.namespace
    assert one.metadata.labels["x"] is two.metadata.labels["x"]
    assert one.metadata.owner_references[0].uid is two.metadata.owner_references[0].uid
