"""YAML bodies."""

from typing import Any

import pytest

from traincrew.local.apiserver.values.codec import DecodeError
from traincrew.local.apiserver.values.errors import StatusError
from traincrew.local.apiserver.values.yaml import PreparedYaml, from_yaml, prepare


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("a: 1\nb: [x, 'y', 1.5, true, null, ~]", {"a": 1, "b": ["x", "y", 1.5, True, None, None]}),
        ("a: 2020-01-01\nb: 1:30", {"a": "2020-01-01", "b": "1:30"}),
        ("1: a\ntrue: b", {"1": "a", "true": "b"}),
        ("a: &x {b: 1}\nc: *x\nd: [*x, *x]", {"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}] * 2}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("d: {<<: [{a: 1}, {a: 2, b: 2}], c: 3}", {"d": {"a": 1, "b": 2, "c": 3}}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("a: !!str 1\nb: !!int '2'\nc: <<", {"a": "1", "b": 2, "c": "<<"}),
        (f"a: {'1:' * 1_000}1\nb: '{'9' * 2_000}'", {"a": "1:" * 1_000 + "1", "b": "9" * 2_000}),
        ("", None),
        ("- a", ["a"]),
    ],
)
def test_documents(text: str, document: Any) -> None:
    assert from_yaml(text.encode()) == (document, [])
    assert from_yaml(prepare(text.encode(), may_be_json=False)) == (document, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !!binary eA==", "unsupported tag 'tag:yaml.org,2002:binary'"),
        ("a: !x {}", "unsupported tag '!x'"),
        ("a: *b", "unknown anchor 'b'"),
        ("a: &a [*a]", "an anchor's value contains itself"),
        ("a: .nan", "unsupported value: .nan"),
        (f"a: {'9' * 2_000}", "unsupported value: 999"),
        ("a: {<<: 1}", "map merge requires map or sequence of maps"),
        ("a: 1\n---\nb: 2", "expected a single document"),
        ("a: [", "error converting YAML to JSON"),
        ("[" * 300, "exceeded max depth"),
        ("%TAG !a! tag:x:\n" * 100, "too many %TAG directives"),
    ],
)
def test_what_is_no_json_is_refused(text: str, message: str) -> None:
    for body in (text.encode(), prepare(text.encode(), may_be_json=False)):
        with pytest.raises(DecodeError) as raised:
            from_yaml(body)
        assert message in str(raised.value)


def test_null_is_no_key() -> None:
    message = r"unsupported map key of type: %!s\(<nil>\), key: <nil>, value: \"d\""
    with pytest.raises(DecodeError, match=message):
        from_yaml(b"a: {null: d}")


def test_aliases_count_as_what_they_stand_for() -> None:
    text = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 90)}]"
    with pytest.raises(StatusError) as raised:
        from_yaml(text.encode())
    assert raised.value.code == 413


def test_duplicate_keys_are_reported_with_their_lines() -> None:
    document, found = from_yaml(b"a: 1\nb: 2\na: 3")
    assert document == {"a": 3, "b": 2}
    assert found == ['line 3: key "a" already set in map']


def test_a_large_json_body_of_an_apply_is_left_alone() -> None:
    assert not isinstance(prepare(b'{"a": 1}', may_be_json=True), PreparedYaml)
    assert isinstance(prepare(b'{"a": 1,}', may_be_json=True), PreparedYaml)
