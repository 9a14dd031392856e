"""Typed views: what they hold, share, and tolerate."""

import json
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Struct, field

from traincrew.engine.cache import Store, ViewDecoder
from traincrew.engine.cache.sharing import adopt, sharer
from traincrew.engine.objects import (
    SHARED,
    AnyObject,
    MetadataOnly,
    ObjectMeta,
    OwnerReference,
    Shared,
    View,
)
from traincrew.engine.observability import Metrics
from traincrew.engine.resources import CONFIG_MAPS, PODS, Resource


class Container(View, frozen=True, gc=False, kw_only=True):
    name: Shared = ""
    arguments: list[Shared] = field(default_factory=list)


class Pod(View, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta
    phase: Shared | None = None
    containers: list[Container] = field(default_factory=list)
    limits: dict[str, Shared] = field(default_factory=dict)
    note: str = ""
    parent: "Pod | None" = None


def line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "namespace": "team-a",
        "labels": {"app": "trainer"},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}],
        "managedFields": [{"manager": "x"}],
    },
    "phase": "Running-at-last",
    "containers": [{"name": "main-one", "arguments": ["--fast"]}],
    "limits": {"cpu": "four-cpus"},
    "note": "unique-note",
}


def test_views_are_frozen_and_invisible_to_the_cycle_collector() -> None:
    import gc

    pod = ViewDecoder(PODS, Pod).object(json.dumps(POD).encode())

    assert not gc.is_tracked(pod)
    with pytest.raises(AttributeError, match="immutable"):
        pod.phase = "x"  # type: ignore[misc]


def test_repeated_strings_are_interned() -> None:
    decoder, share = ViewDecoder(PODS, Pod), sharer(Pod).whole
    one, two = (decoder.object(json.dumps(POD).encode()) for _ in range(2))
    for pod in (one, two):
        share(pod)

    assert one is not two
    assert one.phase is two.phase
    assert one.metadata.namespace is two.metadata.namespace
    assert one.metadata.labels["app"] is two.metadata.labels["app"]
    assert one.metadata.owner_references[0].uid is two.metadata.owner_references[0].uid
    assert one.containers[0].name is two.containers[0].name
    assert one.containers[0].arguments[0] is two.containers[0].arguments[0]
    assert one.limits["cpu"] is two.limits["cpu"]
    assert one.note is not two.note


class Part(Struct, frozen=True, gc=False):
    """A part that many objects have in common."""

    image: Shared = ""
    names: tuple[str, ...] = ()


class Whole(Struct, frozen=True, gc=False):
    """An object with shared parts."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Annotated[Part, SHARED] = field(default_factory=Part)
    parts: Annotated[tuple[Part, ...], SHARED] = ()


def test_equal_parts_are_one() -> None:
    share = sharer(Whole).whole

    def made(number: int) -> Whole:
        found = Whole(spec=Part(f"image-{number}", ("a", "b")), parts=(Part(f"image-{number}"),))
        share(found)
        return found

    one, two, other = made(1), made(1), made(2)
    assert one.spec is two.spec
    assert one.parts is two.parts
    assert one.spec is not other.spec
    assert other.spec == Part("image-2", ("a", "b"))
    assert one.spec.image is two.spec.image


def test_parts_that_were_not_seen_for_long_are_forgotten() -> None:
    """What is remembered is bounded, however many objects differ."""
    share = sharer(Whole).whole
    first = Whole(spec=Part("first"))
    share(first)
    for number in range(5000):
        share(Whole(spec=Part(f"other-{number}")))
    still = Whole(spec=Part("first"))
    share(still)
    assert still.spec is first.spec  # one generation later
    for number in range(10_000):
        share(Whole(spec=Part(f"another-{number}")))
    late = Whole(spec=Part("first"))
    share(late)
    assert late.spec is not first.spec
    assert late.spec == first.spec


def test_an_updated_object_shares_what_did_not_change() -> None:
    decoder = ViewDecoder(PODS, Pod)
    old = decoder.object(json.dumps(POD).encode())
    same = decoder.object(json.dumps(POD).encode())
    adopt(same, old)
    assert same.metadata.labels is old.metadata.labels
    assert same.metadata.owner_references is old.metadata.owner_references

    changed = json.loads(json.dumps(POD))
    changed["metadata"]["labels"]["app"] = "other"
    changed["metadata"]["ownerReferences"] = []
    other = decoder.object(json.dumps(changed).encode())
    adopt(other, old)
    assert other.metadata.labels == {"app": "other"}
    assert other.metadata.owner_references == ()


def test_types_with_nothing_to_share() -> None:
    class Plain(Struct):
        metadata: dict[str, Any]

    plain = Plain({"a": "b"})
    sharer(Plain).whole(plain)

    assert plain == Plain({"a": "b"})


def test_kind_and_version_are_those_of_the_resource() -> None:
    """Lists carry neither, and PartialObjectMetadata another one."""
    obj = ViewDecoder(CONFIG_MAPS, MetadataOnly).object(b'{"kind":"PartialObjectMetadata"}')

    assert (obj.api_version, obj.kind) == ("v1", "ConfigMap")


def test_events_are_decoded_in_one_pass_and_the_others_stay_raw() -> None:
    decoder = ViewDecoder(PODS, Pod)
    kind, pod = decoder.event(line("ADDED", POD))
    assert kind == "ADDED"
    assert isinstance(pod, Pod)

    for kind, obj in (
        ("BOOKMARK", {"metadata": {"resourceVersion": "7"}}),
        ("BOOKMARK", {"metadata": {"resourceVersion": "7", "creationTimestamp": None}}),
        ("ERROR", {"code": 410}),
        ("MODIFIED", POD | {"phase": 7}),
    ):
        seen, raw = decoder.event(line(kind, obj))
        assert seen == kind
        assert isinstance(raw, msgspec.Raw)
    assert decoder.bookmark(msgspec.Raw(b'{"metadata":{"resourceVersion":"7"}}')).metadata == (
        msgspec.json.decode(b'{"resourceVersion":"7"}', type=type(_bookmark_meta()))
    )


def _bookmark_meta() -> Any:
    from traincrew.engine.cache.views import BookmarkMeta

    return BookmarkMeta()


def test_null_counts_as_absent_but_a_wrong_type_does_not() -> None:
    decoder = ViewDecoder(PODS, Pod)
    sparse = json.dumps(POD | {"containers": None, "limits": {"cpu": None}, "note": None})
    pod = decoder.object(sparse.encode())
    assert (pod.containers, pod.limits, pod.note) == ([], {}, "")

    with pytest.raises(msgspec.ValidationError, match="containers"):
        decoder.object(json.dumps(POD | {"containers": "x"}).encode())


def test_a_page_with_one_undecodable_item_returns_all_items_raw() -> None:
    decoder = ViewDecoder(PODS, Pod)
    page = {"metadata": {"resourceVersion": "5", "continue": "t"}, "items": [POD]}
    items, raws, metadata = decoder.page(json.dumps(page).encode())
    assert (len(items), raws) == (1, [])
    assert (metadata.resource_version, metadata.continue_) == ("5", "t")

    page["items"] = [POD, POD | {"note": None}]
    items, raws, _ = decoder.page(json.dumps(page).encode())
    assert (items, len(raws)) == ([], 2)
    items, raws, _ = decoder.page(b'{"metadata":{},"items":null}')
    assert (items, raws) == ([], [])


def test_any_object_decodes_the_body_of_every_kind() -> None:
    decoder = ViewDecoder(CONFIG_MAPS, AnyObject)
    document = {"data": {"a": "b"}, "immutable": True, "spec": {"x": 1}, "endpoints": [{}]}
    obj = decoder.object(json.dumps(document).encode())

    assert (obj.data, obj.immutable, obj.spec, obj.endpoints) == ({"a": "b"}, True, {"x": 1}, [{}])
    assert obj.status == {}


def test_the_owner_index_is_built_in() -> None:
    with pytest.raises(ValueError, match="'owner' is built in"):
        Store[AnyObject]({"owner": lambda _: []})


def test_paths() -> None:
    custom = Resource("kubeflow.org", "v1", "jobs", "Job")

    assert custom.api_version == "kubeflow.org/v1"
    assert custom.path() == "/apis/kubeflow.org/v1/jobs"
    assert custom.path("a", "b", "status") == "/apis/kubeflow.org/v1/namespaces/a/jobs/b/status"
    assert PODS.path("a") == "/api/v1/namespaces/a/pods"


def test_references_compare_by_value() -> None:
    assert OwnerReference(uid="a", name="b") == OwnerReference(uid="a", name="b")
    assert Metrics().queue_depth.value("nothing") == 0
