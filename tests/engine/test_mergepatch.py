"""JSON merge patches, computed and applied."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.engine.mergepatch import apply, difference

NAMES = st.sampled_from("abc")
VALUES = st.recursive(
    st.integers(0, 3)
    | st.text("aé/~", max_size=2)  # all of Unicode takes seconds to prepare
    | st.booleans()
    | st.lists(st.integers(0, 2), max_size=2),
    lambda inner: st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_turns_one_document_into_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    patch = difference(before, after)

    assert apply(before, patch) == after
    assert (patch == {}) == (before == after)


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_changes_neither_document(before: dict[str, Any], after: dict[str, Any]) -> None:
    shown = repr((before, after))
    apply(before, difference(before, after))
    assert repr((before, after)) == shown


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        # The examples of RFC 7396, appendix A, whose documents and patches are objects.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_is_applied_as_in_the_rfc(
    document: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]
) -> None:
    assert apply(document, patch) == result


def test_a_null_counts_as_absent() -> None:
    assert difference({}, {"a": None}) == {}
    assert difference({"a": {}}, {"a": {"b": None}}) == {}
