"""Field sets are written in upstream's order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from traincrew.local.apiserver.apply.fieldorder import in_order

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
