"""Schemas of custom resources: pruning, defaults, validation in the words of upstream."""

from typing import Any

import pytest

from traincrew.local.apiserver import schema
from traincrew.local.apiserver.kinds import custom

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}


def kind(**properties: Any) -> schema.ObjectSchema:
    """Return the schema of a kind whose spec has these fields."""
    spec = {"type": "object", "properties": properties}
    root = {"type": "object", "properties": {"spec": spec}}
    return schema.from_crd(root, "t.io", "v1", "Thing")


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec}


def test_unknown_fields_are_pruned_unless_preserved() -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    known = kind(
        a=TEXT,
        free=free | {"properties": {"known": {"type": "object", "properties": {"a": TEXT}}}},
        labels={"type": "object", "additionalProperties": TEXT},
        list={"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}},
        empty={"type": "object"},
    )
    obj = thing(
        a="1",
        b="2",
        free={"anything": {"deep": 1}, "known": {"a": "1", "b": 2}},
        labels={"x": "y"},
        list=[{"a": "1"}, {"b": "2"}],
        empty={"c": 1},
    )
    obj["extra"] = True
    obj["metadata"]["unheard"] = 1
    assert known.prune(obj) == [
        "metadata.unheard",
        "spec.b",
        "spec.free.known.b",
        "spec.list[1].b",
        "spec.empty.c",
        "extra",
    ]
    assert obj["spec"] == {
        "a": "1",
        "free": {"anything": {"deep": 1}, "known": {"a": "1"}},
        "labels": {"x": "y"},
        "list": [{"a": "1"}, {}],
        "empty": {},
    }


def test_embedded_resources_keep_their_own_metadata() -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    known = kind(template=embedded)
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "nam": 1}, "any": 1}
    obj = thing(template=inner)
    assert known.prune(obj) == ["spec.template.metadata.nam"]
    assert custom.validate(known, obj) == []
    faults = custom.validate(known, thing(template={"metadata": {"labels": 1}}))
    assert [(fault.field, fault.message) for fault in faults[:3]] == [
        (
            "spec.template.metadata.labels",
            (
                'Invalid value: "integer": spec.template.metadata.labels in body must be of type'
                ' object: "integer"'
            ),
        ),
        ("spec.template.apiVersion", "Required value: must not be empty"),
        ("spec.template.kind", "Required value: must not be empty"),
    ]


def test_nulls_are_removed_unless_nullable() -> None:
    known = kind(
        foo=TEXT | {"default": "default"},
        bar=TEXT | {"nullable": True},
        baz=TEXT,
        nested={"type": "object", "default": {}, "properties": {"n": INTEGER | {"default": 3}}},
    )
    obj = thing(foo=None, bar=None, baz=None)
    known.prune(obj)
    known.default(obj)
    assert obj["spec"] == {"bar": None, "foo": "default", "nested": {"n": 3}}
    assert custom.validate(known, obj) == []


def test_defaults_apply_in_lists_and_maps_and_only_in_existing_objects() -> None:
    item = {"type": "object", "properties": {"proto": TEXT | {"default": "TCP"}}}
    known = kind(
        list={"type": "array", "items": item},
        map={"type": "object", "additionalProperties": item},
        absent=item,
    )
    obj = thing(list=[{}, {"proto": "UDP"}], map={"a": {}})
    known.default(obj)
    assert obj["spec"] == {
        "list": [{"proto": "TCP"}, {"proto": "UDP"}],
        "map": {"a": {"proto": "TCP"}},
    }


def test_a_default_is_copied_not_shared() -> None:
    known = kind(list={"type": "array", "items": TEXT, "default": []})
    first, second = thing(), thing()
    known.default(first)
    known.default(second)
    first["spec"]["list"].append("x")
    assert second["spec"]["list"] == []


CASES = [
    (INTEGER, "string", 'Invalid value: "string": {} in body must be of type integer: "string"'),
    (INTEGER, 1.5, 'Invalid value: "number": {} in body must be of type integer: "number"'),
    (INTEGER, 3.0, None),
    (INTEGER, True, 'Invalid value: "boolean": {} in body must be of type integer: "boolean"'),
    ({"type": "number"}, 3, None),
    (TEXT, [], 'Invalid value: "array": {} in body must be of type string: "array"'),
    (
        INTEGER | {"minimum": 1},
        0,
        "Invalid value: 0: {} in body should be greater than or equal to 1",
    ),
    (
        INTEGER | {"minimum": 1, "exclusiveMinimum": True},
        1,
        "Invalid value: 1: {} in body should be greater than 1",
    ),
    (
        INTEGER | {"maximum": 5},
        6,
        "Invalid value: 6: {} in body should be less than or equal to 5",
    ),
    (
        INTEGER | {"maximum": 5, "exclusiveMaximum": True},
        5,
        "Invalid value: 5: {} in body should be less than 5",
    ),
    (
        INTEGER | {"multipleOf": 5},
        7,
        "Invalid value: 7: {} in body should be a multiple of 5",
    ),
    (
        TEXT | {"minLength": 2},
        "a",
        'Invalid value: "a": {} in body should be at least 2 chars long',
    ),
    (TEXT | {"maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
    (TEXT | {"pattern": "^a+$"}, "b", "Invalid value: \"b\": {} in body should match '^a+$'"),
    (
        TEXT | {"enum": ["a", "b"]},
        "c",
        'Unsupported value: "c": supported values: "a", "b"',
    ),
    (
        TEXT | {"format": "date-time"},
        "tomorrow",
        'Invalid value: "tomorrow": {} in body must be of type date-time: "tomorrow"',
    ),
    (TEXT | {"format": "date-time"}, "2020-01-01T00:00:00.5+01:00", None),
    (TEXT | {"format": "ipv4"}, "1.2.3.4", None),
    (
        TEXT | {"format": "ipv4"},
        "1.2.3",
        'Invalid value: "1.2.3": {} in body must be of type ipv4: "1.2.3"',
    ),
    (TEXT | {"format": "nobody-knows"}, "x", None),
    (
        {"type": "array", "items": TEXT, "minItems": 1},
        [],
        "Invalid value: 0: {} in body should have at least 1 items",
    ),
    (
        {"type": "array", "items": TEXT, "maxItems": 1},
        ["a", "b"],
        "Too many: 2: must have at most 1 items",
    ),
    (
        {"type": "object", "additionalProperties": TEXT, "minProperties": 1},
        {},
        "Invalid value: 0: {} in body should have at least 1 properties",
    ),
    (
        {"type": "string", "not": {"enum": ["a"]}},
        "a",
        'Invalid value: "a": "{}" must not validate the schema (not)',
    ),
    (
        {"x-kubernetes-int-or-string": True},
        1.5,
        'Invalid value: "number": {} in body must be of type integer,string: "number"',
    ),
    ({"x-kubernetes-int-or-string": True}, "50%", None),
]


@pytest.mark.parametrize(("field", "value", "message"), CASES)
def test_a_value_that_breaks_a_rule_is_reported(
    field: Any, value: Any, message: str | None
) -> None:
    faults = custom.validate(kind(a=field), thing(a=value))
    expected = [] if message is None else [("spec.a", message.replace("{}", "spec.a"))]
    assert [(fault.field, fault.message) for fault in faults] == expected


def test_required_fields_of_lists_and_objects_are_reported() -> None:
    item = {"type": "object", "required": ["name"], "properties": {"name": TEXT}}
    faults = custom.validate(
        kind(list={"type": "array", "items": item}), thing(list=[{"name": ""}, {}])
    )
    assert [(fault.reason, fault.field) for fault in faults] == [
        ("FieldValueRequired", "spec.list[1].name")
    ]


def test_items_of_sets_and_maps_are_unique() -> None:
    item = {
        "type": "object",
        "properties": {"port": INTEGER, "proto": TEXT | {"default": "TCP"}},
    }
    known = kind(
        set={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        map={
            "type": "array",
            "items": item,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "proto"],
        },
    )
    obj = thing(set=["a", "b", "a"], map=[{"port": 1}, {"port": 1, "proto": "TCP"}])
    assert [(fault.field, fault.message) for fault in custom.validate(known, obj)] == [
        ("spec.set[2]", 'Duplicate value: "a"'),
        ("spec.map[1]", 'Duplicate value: {"port":1,"proto":"TCP"}'),
    ]


def test_alternatives_are_explained() -> None:
    known = schema.from_crd(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": TEXT, "b": TEXT},
                    "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                }
            },
        },
        "t.io",
        "v1",
        "Thing",
    )
    assert custom.validate(known, thing(a="1")) == []
    (fault, *rest) = custom.validate(known, thing())
    assert fault.message == (
        'Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid'
    )
    assert [each.field for each in rest] == ["spec.a"]
    (fault,) = custom.validate(known, thing(a="1", b="2"))
    assert fault.message.endswith("Found 2 valid alternatives")


def test_names_and_labels_are_checked_like_those_of_built_in_kinds() -> None:
    obj = thing()
    obj["metadata"] = {"name": "Not_Good", "labels": {"a": "b c"}}
    assert [fault.field for fault in custom.validate(kind(), obj)] == [
        "metadata.name",
        "metadata.labels",
    ]


def test_rules_are_evaluated_despite_invalid_values_but_not_wrong_types() -> None:
    low = kind(a=INTEGER | {"minimum": 3, "x-kubernetes-validations": [{"rule": "self != 1"}]})
    assert [(cause.field, cause.message) for cause in custom.validate(low, thing(a=1))] == [
        ("spec.a", "Invalid value: 1: spec.a in body should be greater than or equal to 3"),
        ("spec.a", "Invalid value: 1: failed rule: self != 1"),
    ]
    typed, unchecked = custom.validate(low, thing(a="x"))
    assert typed.reason == "FieldValueTypeInvalid"
    assert unchecked.field == "<nil>"
    assert "some validation rules were not checked" in unchecked.message


def test_unchanged_invalid_values_are_ratcheted() -> None:
    known = kind(a=INTEGER | {"maximum": 5}, b=TEXT)
    old = thing(a=7, b="x")
    assert custom.validate(known, thing(a=7, b="y"), old) == []
    assert [fault.field for fault in custom.validate(known, thing(a=8, b="y"), old)] == ["spec.a"]


def test_open_api_has_the_schema_under_its_own_name() -> None:
    definitions = kind(a=TEXT | {"description": "the a"}).open_api()
    own = definitions["io.t.v1.Thing"]
    assert own["x-kubernetes-group-version-kind"] == [
        {"group": "t.io", "kind": "Thing", "version": "v1"}
    ]
    assert own["properties"]["spec"]["properties"]["a"]["description"] == "the a"
    reference = own["properties"]["metadata"]["allOf"][0]["$ref"]
    assert reference.rsplit("/", 1)[1] in definitions


def test_the_pod_template_schema_can_be_embedded() -> None:
    import json
    from importlib import resources

    from traincrew.local.apiserver.kinds.apiextensions import structural

    packed = resources.files("traincrew.api").joinpath("data/pod-template.schema.json")
    template = json.loads(packed.read_text())
    root = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"template": template}}},
    }
    assert structural.check(root, "schema") == []
    known = schema.from_crd(root, "t.io", "v1", "Thing")
    inner = {
        "metadata": {"labels": {"a": "b"}, "creationTimestamp": None},
        "spec": {
            "containers": [
                {
                    "name": "a",
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"port": "http"}},
                }
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "imag": 1,
        },
    }
    obj = thing(template=inner)
    assert known.prune(obj) == ["spec.template.spec.imag"]
    known.default(obj)
    assert custom.validate(known, obj) == []
    assert obj["spec"]["template"]["metadata"]["creationTimestamp"] is None
    port = obj["spec"]["template"]["spec"]["containers"][0]["ports"][0]
    assert port == {"containerPort": 80, "protocol": "TCP"}
