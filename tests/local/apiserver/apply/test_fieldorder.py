"""Field sets are written in upstream's order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from traincrew.local.apiserver import schema
from traincrew.local.apiserver.apply.fieldorder import in_order
from traincrew.local.apiserver.apply.valuefields import compare

KEYS = st.dictionaries(
    st.sampled_from(["name", "port", "protocol"]),
    st.text(max_size=3) | st.integers() | st.booleans() | st.none(),
    min_size=1,
)
NAMES = st.text(st.characters(codec="ascii"), max_size=4).map("f:{}".format)
ITEMS = KEYS.map(lambda keys: "k:" + json.dumps(keys, sort_keys=True))
VALUES = (st.text(max_size=3) | st.integers()).map(lambda value: "v:" + json.dumps(value))
LEAF: st.SearchStrategy[dict[str, Any]] = st.just({})


def sets(below: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        *(
            st.dictionaries(steps | st.just("."), below)
            for steps in (NAMES, ITEMS, VALUES, NAMES | ITEMS | VALUES)
        )
    )


def test_steps_are_in_order() -> None:
    mixed: dict[str, Any] = {
        "f:b": {},
        ".": {},
        "f:a": {
            'k:{"containerPort":443,"protocol":"TCP"}': {},
            'k:{"containerPort":80,"protocol":"UDP"}': {},
            'k:{"containerPort":80,"protocol":"TCP"}': {},
        },
        "f:c": {'v:"b"': {}, "v:10": {}, "v:9": {}, 'v:"a"': {}},
    }
    found = in_order(mixed)
    assert found == mixed
    assert list(found) == [".", "f:a", "f:b", "f:c"]
    assert list(found["f:a"]) == [
        'k:{"containerPort":80,"protocol":"TCP"}',
        'k:{"containerPort":80,"protocol":"UDP"}',
        'k:{"containerPort":443,"protocol":"TCP"}',
    ]
    assert list(found["f:c"]) == ["v:9", "v:10", 'v:"a"', 'v:"b"']


@given(st.recursive(LEAF, sets, max_leaves=12))
def test_ordering_loses_nothing_and_is_idempotent(fields: dict[str, Any]) -> None:
    found = in_order(fields)
    assert found == fields
    assert in_order(found) is found


POD = schema.load_builtin("", "v1", "Pod")
TEXTS = st.dictionaries(st.sampled_from(["b", "a", "a/b", "B", "é"]), st.sampled_from(["x", "y"]))
PORTS = st.fixed_dictionaries(
    {"containerPort": st.sampled_from([443, 80, 8080])},
    optional={"protocol": st.sampled_from(["UDP", "TCP"]), "name": st.just("p")},
)
CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["b", "a", 'a"b', "a b"]), "image": st.sampled_from(["i", "j"])},
    optional={
        "ports": st.lists(PORTS, max_size=4),
        "env": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["Z", "A", "é", "A_B"])}, optional={}),
            max_size=5,
        ),
        "resources": st.fixed_dictionaries({}, optional={"limits": TEXTS, "claims": st.just([])}),
    },
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {}, optional={"labels": TEXTS, "finalizers": st.lists(st.sampled_from("cab"))}
        ),
        "spec": st.fixed_dictionaries({"containers": st.lists(CONTAINERS, max_size=3)}),
    }
)


@given(PODS, PODS)
def test_the_changes_between_two_objects_are_in_order(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    for before in (old, {}, POD.empty):
        changed = compare(POD.node, before, new).changed
        assert in_order(changed) is changed
