"""Expressions: what they are worth here, and how they are written for Helm."""

from __future__ import annotations

import pytest

from traincrew.api.expressions import (
    All,
    ForEach,
    Get,
    Greater,
    HasKind,
    Less,
    Longer,
    Matches,
    More,
    Node,
    Not,
    Number,
    Same,
    Shortened,
    Stripped,
    When,
    Within,
    Without,
    built,
    get,
    gets,
    text,
)

SCOPE = {
    "values": {
        "name": "x\n", "path": "/a//", "num": "010", "list": [1, 2], "none": None, "off": False,
        "inner": {"deep": "y"}, "codes": [{"name": "a"}, {"name": "b"}],
    },
    "count": 4,
}  # fmt: skip


def of(key: str) -> Get:
    return get(f"values.{key}")


@pytest.mark.parametrize(
    ("node", "value"),
    [
        (of("inner.deep"), "y"),
        (of("missing.deep"), None),
        (of("none.deep"), None),
        (text("a", of("inner.deep"), "%"), "ay%"),
        (Matches(of("name"), "^x$"), False),  # as in Go, $ is the end, not before a last newline
        (Matches(of("missing"), "^$"), True),
        (Matches(text("é"), r"^\w$"), False),
        (Stripped(of("path"), "/+$"), "/a"),
        (Number(of("num")), 10),
        (Number(of("none")), None),
        (Less(get("count"), 5), True),
        (Less(of("missing"), 5), False),
        (Greater(get("count"), 4), False),
        (Longer(of("name"), 1), True),
        (More(of("list"), 2), False),
        (More(of("missing"), 0), False),
        (Same(of("missing"), ""), True),
        (Same(of("off"), "false"), True),
        (Within(of("path"), "/a"), True),
        (Without(of("path"), "/a"), "//"),
        (Shortened(text("abc-d"), 4), "abc"),
        (Shortened(text("aé"), 2), "a\ufffd"),
        (HasKind(of("none"), "invalid"), True),
        (HasKind(of("inner"), "map"), True),
        (All(get("count"), Not(of("off"))), True),
    ],
)
def test_what_it_is_worth(node: Node, value: object) -> None:
    assert node.value(SCOPE) == value


@pytest.mark.parametrize(
    ("node", "go"),
    [
        (get("name"), "$name"),
        (of("image.tag"), "$values_image.tag"),
        (text("plain 100%"), '"plain 100%"'),
        (text(of("a"), ":%", of("b")), '(printf "%v:%%%v" $values.a $values.b)'),
        (Matches(of("a"), r"\d{2}"), r'(regexMatch `\d{2}` (toString ($values.a | default "")))'),
        (All(of("a"), Not(of("b"))), "(and $values.a (not $values.b))"),
    ],
)
def test_how_it_is_written_for_helm(node: Node, go: str) -> None:
    assert node.go() == go


def test_documents_leave_out_what_is_empty_but_not_what_is_false() -> None:
    document = {
        "off": of("off"),
        "none": of("none"),
        "there": When(get("count"), {"deep": of("inner.deep")}),
        "not": When(of("off"), {"deep": 1}),
        "codes": ForEach(of("codes"), "code", {"name": get("code.name")}),
        "list": [{"name": "fixed"}],
        "empty": {"none": of("none")},
    }

    assert built(document, SCOPE) == {
        "off": False,
        "there": {"deep": "y"},
        "codes": [{"name": "a"}, {"name": "b"}],
        "list": [{"name": "fixed"}],
    }


def test_what_a_document_gets() -> None:
    document = {"a": [When(of("b"), text(of("c")))], "d": ForEach(of("e"), "f", get("f.g"))}

    assert [each.go() for each in gets(document)] == [
        "$values.b", "$values.c", "$values.e", "$f.g",
    ]  # fmt: skip
