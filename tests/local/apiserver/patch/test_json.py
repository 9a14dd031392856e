"""JSON patch and JSON merge patch."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.local.apiserver.patch.json import PatchError, json_patch, merge_patch

documents = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "z/~"]), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(["x", "y"]), documents, max_size=2)


# RFC 7386, appendix A.
@pytest.mark.parametrize(
    ("doc", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(doc: Any, patch: Any, result: Any) -> None:
    assert merge_patch(doc, patch) == result


@pytest.mark.parametrize(
    ("doc", "patch", "result"),
    [
        # A value that replaces another loses its nulls, even inside lists …
        ({}, {"a": [{"b": None, "c": 1}]}, {"a": [{"c": 1}]}),
        ({"a": [1]}, {"a": [{"b": None, "c": 1}]}, {"a": [{"c": 1}]}),
        ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        # … but not a list that replaces an object.
        ({"a": {"x": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
    ],
)
def test_merge_patch_as_upstream_does_it(doc: Any, patch: Any, result: Any) -> None:
    assert merge_patch(doc, patch) == result


@given(objects, objects)
def test_a_merge_patch_is_idempotent(doc: Any, patch: Any) -> None:
    once = merge_patch(doc, merge_patch({}, patch))
    assert merge_patch(once, merge_patch({}, patch)) == once


@pytest.mark.parametrize(
    ("doc", "operations", "result"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ({"a": 1}, [{"op": "add", "path": "/a", "value": None}], {"a": None}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/a"}], {"b": 2}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
        ({"a": {"b": 1}}, [{"op": "move", "from": "/a/b", "path": "/c"}], {"a": {}, "c": 1}),
        ({"a": [1, 2]}, [{"op": "copy", "from": "/a/0", "path": "/a/-"}], {"a": [1, 2, 1]}),
        ({"a/b": {"~": 1}}, [{"op": "remove", "path": "/a~1b/~0"}], {"a/b": {}}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
        ({"a": [1, {"b": True}]}, [{"op": "test", "path": "/a/1", "value": {"b": True}}], None),
    ],
)
def test_json_patch(doc: Any, operations: Any, result: Any) -> None:
    before = repr(doc)
    assert json_patch(doc, operations) == (doc if result is None else result)
    assert repr(doc) == before


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        ([{"op": "remove", "path": "/b"}], "Unable to remove nonexistent key: b: missing value"),
        ([{"op": "remove", "path": ""}], 'doc is missing path: "": missing value'),
        (
            [{"op": "add", "path": "/b/c", "value": 1}],
            'doc is missing path: "/b/c": missing value',
        ),
        ([{"op": "test", "path": "/a", "value": 2}], "testing value /a failed: test failed"),
        ([{"op": "test", "path": "/t", "value": True}], "testing value /t failed: test failed"),
        ([{"op": "add", "path": "/l/7", "value": 1}], "Unable to access invalid index: 7"),
        ([{"op": "replace", "path": "/l/0", "value": 1}], "Unable to access invalid index: 0"),
        (
            [{"op": "add", "path": "/l/x", "value": 1}],
            "value was not a proper array index: 'x'",
        ),
        ([{"op": "replace", "path": "", "value": 3}], "value must be object or array"),
        ([{"op": "add", "value": 1}], "operation lacks path: missing value"),
        ([{"op": "copy", "path": "/b"}], "operation lacks from: missing value"),
        ([{"op": "jump", "path": "/a"}], "Unexpected kind: jump"),
        ([{"path": "/a"}], "Unexpected kind: unknown"),
        (
            [{"op": "move", "from": "/o", "path": "/o/x"}],
            'doc is missing path: "/o/x": missing value',
        ),
    ],
)
def test_json_patches_that_cannot_be_applied(operations: Any, message: str) -> None:
    with pytest.raises(PatchError, match=re.escape(message)) as caught:
        json_patch({"a": 1, "l": [], "t": 1, "o": {}}, operations)
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "replace", "path": "/new", "value": 1}, {"l": [1, 2], "new": 1}),
        ({"op": "add", "path": "/new"}, {"l": [1, 2], "new": None}),
        ({"op": "copy", "from": "/missing", "path": "/new"}, {"l": [1, 2], "new": None}),
        ({"op": "remove", "path": "/l/-1"}, {"l": [1]}),
        ({"op": "add", "path": "no slash/new", "value": 1}, {"l": [1, 2], "new": 1}),
    ],
)
def test_json_patch_is_as_lenient_as_upstream(operation: Any, result: Any) -> None:
    assert json_patch({"l": [1, 2]}, [operation]) == result


@given(documents, documents)
def test_replacing_the_whole_document_works(doc: Any, value: Any) -> None:
    assert json_patch({"x": doc}, [{"op": "replace", "path": "/x", "value": value}]) == {"x": value}


@given(objects, documents)
def test_add_then_remove_changes_nothing(doc: Any, value: Any) -> None:
    operations = [{"op": "add", "path": "/new", "value": value}, {"op": "remove", "path": "/new"}]
    assert json_patch(doc, operations) == doc
