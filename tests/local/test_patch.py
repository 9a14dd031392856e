"""JSON patch and JSON merge patch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.local.apiserver.patch import PatchError, json_patch, merge_patch

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


@given(objects, objects)
def test_a_merge_patch_applies_once(doc: Any, patch: Any) -> None:
    once = merge_patch(doc, patch)
    assert merge_patch(once, patch) == once


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
    ("operations", "message", "invalid"),
    [
        (
            [{"op": "remove", "path": "/b"}],
            'remove operation does not apply: Unable to remove nonexistent key: "b": missing value',
            True,
        ),
        (
            [{"op": "replace", "path": "/b", "value": 1}],
            "replace operation does not apply: doc is missing key: /b: missing value",
            True,
        ),
        (
            [{"op": "add", "path": "/b/c", "value": 1}],
            'add operation does not apply: doc is missing path: "/b/c": missing value',
            True,
        ),
        ([{"op": "test", "path": "/a", "value": 2}], "testing value /a failed: test failed", True),
        (
            [{"op": "test", "path": "/t", "value": True}],
            "testing value /t failed: test failed",
            True,
        ),
        (
            [{"op": "add", "path": "/l/7", "value": 1}],
            (
                "add operation does not apply: Unable to access invalid index: 7: invalid index "
                "referenced (path /l/7)"
            ),
            True,
        ),
        (
            [{"op": "add", "path": "/l/x", "value": 1}],
            "add operation does not apply: value was not a proper array index: 'x'",
            True,
        ),
        ([{"op": "add", "path": "/a"}], "add operation lacks value: missing value", False),
        ([{"op": "add", "value": 1}], "add operation lacks path: missing value", False),
        ([{"op": "copy", "path": "/b"}], "copy operation lacks from: missing value", False),
        ([{"op": "jump", "path": "/a"}], "Unexpected kind: jump", False),
        ({"op": "add"}, "cannot unmarshal object into Go value of type jsonpatch.Patch", False),
        (["add"], "a JSON patch is a list of objects with op and path", False),
        (
            [{"op": "move", "from": "/o", "path": "/o/x"}],
            "move operation: /o cannot be moved into itself",
            True,
        ),
    ],
)
def test_json_patches_that_do_not_fit(operations: Any, message: str, invalid: bool) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({"a": 1, "l": [], "t": 1, "o": {}}, operations)
    assert caught.value.message == message
    assert caught.value.invalid is invalid


def test_there_is_an_end_to_operations() -> None:
    operations = [{"op": "test", "path": "", "value": None}] * 10_001
    with pytest.raises(PatchError, match="maximum operations in a JSON patch is 10000, got 10001"):
        json_patch({}, operations)


@given(documents, documents)
def test_replacing_the_whole_document_works(doc: Any, value: Any) -> None:
    assert json_patch({"x": doc}, [{"op": "replace", "path": "/x", "value": value}]) == {"x": value}


@given(objects, documents)
def test_add_then_remove_is_nothing(doc: Any, value: Any) -> None:
    operations = [{"op": "add", "path": "/new", "value": value}, {"op": "remove", "path": "/new"}]
    assert json_patch(doc, operations) == doc
