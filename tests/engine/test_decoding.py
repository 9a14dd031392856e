"""Bytes of others: whatever is wrong with them, one refusal."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traincrew.engine.cache.views import ViewDecoder
from traincrew.engine.cache.watchlines import describe, status_error, version_of
from traincrew.engine.client.requester import as_object
from traincrew.engine.decoding import (
    MAX_DEPTH,
    UndecodableError,
    decode_base64,
    decode_json,
    shallow,
)
from traincrew.engine.errors import ApiError
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import PODS

DEEP = b'{"a":' * 2500 + b"1" + b"}" * 2500


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (DEEP, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": "\xff"}', r"not UTF-8 text"),
        (b"\xff\xfe", "malformed|UTF-8|invalid"),
        (b"", "truncated"),
        (b"{", "truncated"),
        (b'{"a": "\\ud800"}', "surrogate|truncated"),
    ],
)
def test_json_is_refused_with_a_reason(data: bytes, said: str) -> None:
    with pytest.raises(UndecodableError, match=f"(?i){said}"):
        decode_json(data)
    with pytest.raises(UndecodableError):
        decode_json(data, type=dict[str, str])
    with pytest.raises(ApiError, match="something that is not JSON"):
        as_object(data or b" ")


@pytest.mark.parametrize("text", ["é", "a", "a===", "a\0aa", "====", "\ud800", "aa\naa="])
def test_base64_is_refused(text: str) -> None:
    with pytest.raises(UndecodableError, match="not base64"):
        decode_base64(text)


def test_base64_of_urls() -> None:
    assert decode_base64("-_8", url=True, padded=False) == b"\xfb\xff"
    assert decode_base64("eA==") == b"x"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_are_json_or_refused(data: bytes) -> None:
    for decode in (decode_json, decode_base64):
        try:
            decode(data)
        except UndecodableError as error:
            assert str(error)  # noqa: PT017 - both outcomes are allowed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=10,
)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_what_is_not_deep_stays(document: object) -> None:
    data = json.dumps(document).encode()
    assert shallow(data) == data


@pytest.mark.parametrize("depth", [MAX_DEPTH - 3, 2500, 100_000])
def test_deep_values_become_null(depth: int) -> None:
    data = b'{"items":[{"s":"]}[{","d":%b,"k":1},{"k":2}]}' % (b"[" * depth + b"]" * depth)
    found = json.loads(shallow(data))
    assert [each["k"] for each in found["items"]] == [1, 2]
    assert (b"null" in shallow(data)) == (depth > MAX_DEPTH - 3)


def _depth(document: object) -> int:
    if isinstance(document, dict):
        document = list(document.values())
    if not isinstance(document, list):
        return 0
    return 1 + max(map(_depth, document), default=0)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(MAX_DEPTH - 9, MAX_DEPTH + 1),
    st.sampled_from(['"', "]", "\\", '"]', '\\"]"', "[{" * 200, "}]" * 200]),
    JSON,
)
def test_the_depth_is_that_of_lists_and_objects(levels: int, text: str, beside: object) -> None:
    """Brackets, quotes and backslashes in texts do not count."""
    document: object = [text, beside, {text: text}]
    for level in range(levels):
        document = [text, document, text] if level % 2 else {text: document}
    data = json.dumps(document)
    if _depth(document) > MAX_DEPTH:
        with pytest.raises(UndecodableError, match="nested too deeply"):
            decode_json(data)
    else:
        assert decode_json(data) == document


def test_one_deep_object_hides_no_others() -> None:
    """A cache reads the others of the list, and goes on after the event."""
    decoder = ViewDecoder(PODS, AnyObject)
    deep = b'{"metadata":{"name":"deep","resourceVersion":"1"},"spec":%b}' % DEEP
    other = b'{"metadata":{"name":"other","resourceVersion":"2"}}'
    items, slow, _ = decoder.page(b'{"items":[%b,%b]}' % (deep, other))
    names = [each.metadata.name for each in (*items, *map(decoder.object, slow))]
    assert names == ["deep", "other"]
    kind, found = decoder.event(b'{"type":"ADDED","object":%b}' % deep)
    assert kind == "ADDED"
    found = decoder.object(found) if isinstance(found, msgspec.Raw) else found
    assert found.metadata.name == "deep"


def test_lines_of_a_watch_that_are_no_events() -> None:
    decoder = ViewDecoder(PODS, AnyObject)
    for line in (b"[" * 5000, b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}', b"{"):
        with pytest.raises(msgspec.DecodeError):
            decoder.event(line)
    for raw in (msgspec.Raw(DEEP), msgspec.Raw(b'"\xff"'), msgspec.Raw(b"[")):
        assert status_error(raw).code == 500
        assert version_of(raw) == ""
        assert describe(raw)
