"""The store: lookups and indices, against a model."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traincrew.engine.cache import Store
from traincrew.engine.objects import AnyObject, FullObjectMeta, OwnerReference, controller_of


def make(
    namespace: str, name: str, owners: tuple[str, ...] = (), color: str = "", version: str = "1"
) -> AnyObject:
    references = tuple(OwnerReference(uid=uid, kind="Job", name=uid) for uid in owners)
    return AnyObject(
        metadata=FullObjectMeta(
            namespace=namespace,
            name=name,
            resource_version=version,
            owner_references=references,
            labels={"color": color} if color else {},
        )
    )


def colors(obj: AnyObject) -> list[str]:
    color = obj.metadata.labels.get("color")
    return [color] if color else []


def test_finds_by_key_namespace_and_owner() -> None:
    store: Store[AnyObject] = Store()
    one, two = make("a", "x", ("u1",)), make("b", "x", ("u1", "u2"))
    store.put(one)
    store.put(two)

    assert store.get("a", "x") is one
    assert store.get("a", "y") is None
    assert store.list("b") == [two]
    assert store.by_index("owner", "u1") == [one, two]
    assert store.by_index("owner", "u2") == [two]
    assert store.by_index("owner", "u3") == []


def test_cluster_scoped_objects_have_no_namespace() -> None:
    store: Store[AnyObject] = Store()
    node = make("", "node-1")
    store.put(node)

    assert store.get(None, "node-1") is node


def test_an_unknown_index_raises_an_error() -> None:
    with pytest.raises(KeyError, match="colour"):
        Store[AnyObject]().by_index("colour", "red")


def test_the_controller_owner_is_the_reference_with_controller_true() -> None:
    plain = OwnerReference(uid="1", kind="A", name="a")
    controlling = OwnerReference(uid="2", kind="B", name="b", controller=True)

    assert controller_of(AnyObject(metadata=FullObjectMeta(owner_references=(plain,)))) is None
    owned = AnyObject(metadata=FullObjectMeta(owner_references=(plain, controlling)))
    assert controller_of(owned) is controlling


names = st.sampled_from("abc")
puts = st.tuples(
    st.just("put"),
    names,
    names,
    st.lists(st.sampled_from(["u1", "u2", "u3"]), max_size=3, unique=True).map(tuple),
    st.sampled_from(["", "red", "blue"]),
)
removals = st.tuples(st.just("remove"), names, names, st.just(()), st.just(""))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(puts, removals), max_size=40))
def test_indices_always_agree_with_a_scan(steps: list[Any]) -> None:
    store = Store({"color": colors})
    model: dict[tuple[str, str], AnyObject] = {}
    for version, (action, namespace, name, owners, color) in enumerate(steps):
        key = (namespace, name)
        if action == "put":
            obj = make(namespace, name, owners, color, str(version))
            assert store.put(obj) is model.get(key)
            model[key] = obj
        else:
            assert store.remove(key) is model.pop(key, None)

        def found(objects: list[AnyObject]) -> set[int]:
            return {id(obj) for obj in objects}

        assert found(store.list()) == found(list(model.values()))
        assert len(store) == len(model)
        for uid in ("u1", "u2", "u3"):
            owned = [
                o for o in model.values() if uid in {r.uid for r in o.metadata.owner_references}
            ]
            assert found(store.by_index("owner", uid)) == found(owned)
        for wanted in ("red", "blue"):
            matching = [o for o in model.values() if wanted in colors(o)]
            assert found(store.by_index("color", wanted)) == found(matching)
    for obj in list(model.values()):
        store.remove((obj.metadata.namespace, obj.metadata.name))
    assert not any(store._indices.values()), "empty buckets are dropped"
