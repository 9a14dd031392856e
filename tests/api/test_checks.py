"""Checks: which fields are wrong, at any depth."""

from __future__ import annotations

from typing import Any

from traincrew.api.checks import Check, Each, Find, First, check, matching, problems, required
from traincrew.api.expressions import Not, Same, get


def said(*checks: Check | First | Each, **document: Any) -> list[str]:
    """What is said of a document."""
    return [str(problem) for problem in problems(checks, {"it": document})]


def test_fields_have_the_path_of_the_document() -> None:
    assert said(required("it.a.b", "missing")) == ["a.b: missing"]
    assert said(required("it.a.b", "missing"), a={"b": 1}) == []
    assert said(matching("it.a", "^x$", "no x"), a="y") == ["a: no x"]
    assert said(matching("it.a", "^x$", "no x")) == []


def test_entries_of_lists_and_mappings_have_their_place() -> None:
    inner = Each(get("one.inner"), "two", (required("two", "empty"),), mapping=True)
    each = Each(get("it.all"), "one", (required("one.name", "missing"), inner))

    assert said(each, all=[{"name": "x"}, {"inner": {"a": 1, "b": ""}}]) == [
        "all[1].name: missing",
        "all[1].inner.b: empty",
    ]
    assert said(each, all=None) == []
    assert said(each) == []


def test_only_the_first_of_several_is_said() -> None:
    checks = (required("it.a", "one"), required("it.b", "two"), required("it.c", "three"))

    assert said(First(checks), a=1) == ["b: two"]
    assert said(First(checks), a=1, b=1, c=1) == []


def test_an_entry_is_compared_with_those_before_it() -> None:
    before = Find(get("it.all"), "other", Same(get("other.name"), get("one.name")), "found", True)
    twice = check("one.name", get("found"), "as ", get("found.id"), find=before)
    each = Each(get("it.all"), "one", (twice,))

    entries = [{"name": "a", "id": 1}, {"name": "b", "id": 2}, {"name": "a", "id": 3}]
    assert said(each, all=entries) == ["all[2].name: as 1"]


def test_something_is_looked_for_in_another_list() -> None:
    find = Find(get("it.there"), "other", Same(get("other.name"), get("one.name")), "found")
    each = Each(get("it.all"), "one", (check("one.name", Not(get("found")), "missing", find=find),))

    assert said(each, all=[{"name": "a"}, {"name": "b"}], there=[{"name": "b"}]) == [
        "all[0].name: missing"
    ]
