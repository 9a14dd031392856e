"""Label and field selectors."""

from typing import Any

import pytest

from local.apiserver.strategies import strategy_of
from traincrew.local.apiserver.values.selectors import (
    FieldLabels,
    SelectorError,
    field_selector,
    from_label_selector,
    label_selector,
)


@pytest.mark.parametrize(
    ("text", "labels", "selected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a=b", {"a": "c"}, False),
        ("a==b", {"a": "b"}, True),
        ("a!=b", {"a": "c"}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a=", {"a": ""}, True),
        ("a", {"a": "x"}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": ""}, False),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in (b,c)", {}, False),
        ("a in ()", {"a": ""}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a notin (b,c)", {}, True),
        ("a=b,c=d", {"a": "b", "c": "d"}, True),
        ("a=b,c=d", {"a": "b"}, False),
        (" a = b , !c ", {"a": "b"}, True),
        ("example.com/role in (x),n>3", {"example.com/role": "x", "n": "4"}, True),
        ("n<3", {"n": "4"}, False),
        ("n<3", {"n": "two"}, False),
        ("in in (in)", {"in": "in"}, True),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], selected: bool) -> None:
    assert label_selector(text)(labels) is selected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in b", "found 'b' expected: '('"),
        ("a in (b", "found '', expected: ',' or ')'"),
        ("a in (b c)", "found 'c', expected: ',' or ')'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a=,,", "found ',', expected: identifier after ','"),
        ("a>b", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a=b@", 'values[0][a]: Invalid value: "b@": a valid label must be an empty string'),
        ("-a=b", 'key: Invalid value: "-a": name part must consist of'),
        ("!", "found '', expected: !, identifier, or 'end of string'"),
    ],
)
def test_invalid_label_selectors(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        label_selector(text)
    assert message in str(caught.value)
    between = message.endswith(("or 'end of string'", "after ','")) and "!" not in message
    assert str(caught.value).startswith("unable to parse requirement: ") is not between


def test_structured_selectors() -> None:
    spec = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d"]},
            {"key": "e", "operator": "NotIn", "values": ["f"]},
            {"key": "g", "operator": "Exists"},
            {"key": "h", "operator": "DoesNotExist"},
        ],
    }
    select = from_label_selector(spec)
    good = {"a": "b", "c": "d", "g": ""}
    assert select(good)
    for change in ({"a": "x"}, {"c": "x"}, {"e": "f"}, {"h": ""}):
        assert not select(good | change)
    assert not select({"a": "b", "c": "d"})
    assert from_label_selector({})({"any": "thing"})
    assert not from_label_selector(None)({})
    with pytest.raises(SelectorError, match='"Near" is not a valid label selector operator'):
        from_label_selector({"matchExpressions": [{"key": "a", "operator": "Near"}]})


GROUPS = {"Job": "batch"}


def obj(**content: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "namespace": "d"}} | content


@pytest.mark.parametrize(
    ("text", "kind", "subject", "selected"),
    [
        ("", "Pod", obj(), True),
        ("metadata.name=n,metadata.namespace=d", "Anything", obj(), True),
        ("metadata.name!=n", "Anything", obj(), False),
        ("spec.nodeName=", "Pod", obj(spec={}), True),
        ("spec.nodeName==a", "Pod", obj(spec={"nodeName": "a"}), True),
        ("status.phase!=Running", "Pod", obj(status={"phase": "Running"}), False),
        ("spec.unschedulable=false", "Node", obj(spec={}), True),
        ("spec.unschedulable=false", "Node", obj(spec={"unschedulable": True}), False),
        ("status.successful=0", "Job", obj(), True),
        ("status.successful=2", "Job", obj(status={"succeeded": 2}), True),
        ("type=Opaque", "Secret", obj(type="Opaque"), True),
        (
            "involvedObject.kind=Pod,involvedObject.uid=u",
            "Event",
            obj(involvedObject={"kind": "Pod", "uid": "u"}),
            True,
        ),
        ("regarding.name=a", "Event", obj(involvedObject={"name": "a"}), True),
        ("involvedObject.name=a", "Event", obj(regarding={"name": "a"}), True),
        ("source=kubelet", "Event", obj(source={"component": "kubelet"}), True),
        ("source=kubelet", "Event", obj(reportingComponent="kubelet"), True),
        ("source=kubelet", "Event", obj(reportingController="kubelet"), True),
        (
            "source=kubelet",
            "Event",
            obj(source={"component": "a"}, reportingController="kubelet"),
            False,
        ),
        (r"metadata.name=a\,b", "Pod", {"metadata": {"name": "a,b"}}, True),
    ],
)
def test_field_selectors(text: str, kind: str, subject: dict[str, Any], selected: bool) -> None:
    assert (
        field_selector(text, strategy_of(GROUPS.get(kind, ""), kind).selectable)(subject)
        is selected
    )


def test_custom_resources_can_have_selectable_fields() -> None:
    select = field_selector("spec.color=red", FieldLabels.of("spec.color"))
    assert select(obj(spec={"color": "red"}))
    assert not select(obj(spec={"color": "blue"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec.a=b", "field label not supported: spec.a"),
        ("nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        (r"metadata.name=a\b", "unknown escape"),
    ],
)
def test_invalid_field_selectors(text: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message.replace("'", ".")):
        field_selector(text, strategy_of("", "Pod").selectable)


def test_errors_for_kinds_with_only_metadata_selectors() -> None:
    with pytest.raises(SelectorError) as caught:
        field_selector("data.a=b", strategy_of("", "ConfigMap").selectable)
    known = '"metadata.name", "metadata.namespace"'
    assert str(caught.value) == f'"data.a" is not a known field selector: only {known}'
    with pytest.raises(SelectorError, match=r"field label not supported: spec\.a"):
        field_selector("spec.a=b", FieldLabels.of())
