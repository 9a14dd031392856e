"""CEL rules of custom resources."""

from typing import Any

import pytest

from traincrew.local.apiserver import cel, schema
from traincrew.local.apiserver.kinds import custom

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}
FIELDS: dict[str, Any] = {
    "n": INTEGER,
    "m": INTEGER,
    "s": TEXT,
    "f": {"type": "number"},
    "b": {"type": "boolean"},
    "when": TEXT | {"format": "date-time"},
    "texts": {"type": "array", "items": TEXT},
    "numbers": {"type": "array", "items": INTEGER},
    "labels": {"type": "object", "additionalProperties": TEXT},
    "port": {"x-kubernetes-int-or-string": True},
    "a-b": TEXT,
    "namespace": TEXT,
    "people": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": TEXT, "age": INTEGER}},
    },
}


def kind(*rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a schema whose spec has these rules."""
    spec = {
        "type": "object",
        "properties": FIELDS | fields,
        "x-kubernetes-validations": list(rules),
    }
    return {"type": "object", "properties": {"spec": spec}}


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "t.io/v1", "kind": "T", "metadata": {"name": "x"}, "spec": spec}


def verdict(rule: str, old: dict[str, Any] | None = None, /, **spec: Any) -> list[str]:
    compiled = cel.compile_rules(kind({"rule": rule}))
    assert compiled.faults == []
    return [cause.message for cause in compiled.validate(thing(**spec), old and thing(**old))]


def faults(rule: str, **entry: Any) -> list[tuple[str, str]]:
    compiled = cel.compile_rules(kind({"rule": rule} | entry))
    return [(cause.field, cause.message) for cause in compiled.faults]


TRUE = [
    "self.n == 3",
    "self.n < self.m && self.m <= 5",
    "has(self.n) && !has(self.when)",
    "self.s.startsWith('he') && self.s.endsWith('lo') && self.s.contains('ell')",
    "self.s.matches('^h.*o$')",
    "size(self.s) == 5 && self.s.size() == 5",
    "size('é') == 1",
    "self.f > 1.0",
    "self.texts.all(t, t.size() == 1)",
    "self.texts.exists(t, t == 'b')",
    "self.texts.exists_one(t, t == 'b')",
    "self.texts.filter(t, t > 'a') == ['b']",
    "self.numbers.map(x, x * 2) == [2, 4]",
    "self.labels.all(key, self.labels[key] == 'v')",
    "'k' in self.labels",
    "self.port == '80%' || self.port == 80",
    "type(self.port) == string",
    "self.a__dash__b == 'x' && self.__namespace__ == 'y'",
    "has(self.namespace) && self.namespace == 'y' && self.?namespace.orValue('') == 'y'",
    "self.people.all(p, p.age > 17)",
    "self.people.map(p, p.name).isSorted()",
    "self.n == 3 ? true : false",
    # Kubernetes' libraries
    "self.numbers.sum() == 3 && self.numbers.min() == 1 && self.numbers.max() == 2",
    "self.numbers.indexOf(2) == 1 && self.texts.lastIndexOf('z') == -1",
    "self.s.find('l+') == 'll' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
    "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b'",
    "'abc'.substring(1) == 'bc' && 'abc'.charAt(1) == 'b' && 'abc'.indexOf('c') == 2",
    "' a '.trim() == 'a' && 'aXa'.replace('a', 'b') == 'bXb' && 'Ab'.lowerAscii() == 'ab'",
    "'%s is %d'.format(['a', 3]) == 'a is 3' && 'Ab'.upperAscii() == 'AB'",
    "quantity('1Gi').isGreaterThan(quantity('1000Mi')) && isQuantity('1k') && !isQuantity('x')",
    "quantity('1').add(quantity('500m')) == quantity('1.5')",
    "quantity('2').asInteger() == 2",
    "quantity('1').compareTo(quantity('2')) == -1 && sign(quantity('-1')) == -1",
    (
        "url('https://a.b:80/c?d=e').getHost() == 'a.b:80' && url('https://a.b/c').getScheme() == "
        "'https' && isURL('https://a') && !isURL('a b')"
    ),
    "url('https://a.b:80/c?d=e').getQuery()['d'] == ['e']",
    "url('http://[::1]:1').getPort() == '1'",
    "isIP('1.2.3.4') && !isIP('1.2.3') && ip('::1').family() == 6",
    "ip('127.0.0.1').isLoopback()",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').prefixLength() == 8",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && isCIDR('10.0.0.0/8')",
    "sets.contains(self.texts, ['a']) && sets.intersects(['a'], ['a', 'b'])",
    "sets.equivalent([1, 2, 1], [2, 1])",
    "duration('1h').getHours() == 1",
    "[3, 1, 2].sort() == [1, 2, 3] && [1, 1].distinct() == [1] && lists.range(2) == [0, 1]",
    # Optional values
    "self.?n.orValue(1) == 3 && self.?when.hasValue() == false",
    "self.labels[?'k'].orValue('') == 'v' && self.labels[?'x'].orValue('y') == 'y'",
    "self.?labels.k.orValue('') == 'v' && self.?labels[?'x'].or(optional.of('z')).value() == 'z'",
    "self.?n.optMap(n, n + 1).orValue(0) == 4 && optional.none().orValue(1) == 1",
    "[?self.?n, 5] == [3, 5] && {?'a': self.?n} == {'a': 3}",
    # Errors that do not matter
    "self.n == 3 || self.absent.n == 1",
]
VALUES = {
    "n": 3,
    "m": 5,
    "s": "hello",
    "f": 2,
    "texts": ["a", "b"],
    "numbers": [1, 2],
    "labels": {"k": "v"},
    "port": "80%",
    "a-b": "x",
    "namespace": "y",
    "people": [{"name": "a", "age": 18}, {"name": "b", "age": 19}],
}


@pytest.mark.parametrize("rule", TRUE)
def test_rules_that_hold(rule: str) -> None:
    free = {"absent": {"type": "object", "properties": {"n": INTEGER}}}
    compiled = cel.compile_rules(kind({"rule": rule}, **free))
    assert compiled.faults == []
    assert compiled.validate(thing(**VALUES)) == []


def test_times_are_times() -> None:
    rule = "self.when < timestamp('2030-01-01T00:00:00Z') && self.when.getFullYear() == 2027"
    assert verdict(rule, when="2027-01-15T08:00:00Z") == []
    assert verdict(rule, when="2031-01-15T08:00:00+01:00") != []


def test_a_broken_rule_without_message_is_quoted() -> None:
    assert verdict("self.n > 1", n=1) == ["Invalid value: failed rule: self.n > 1"]


@pytest.mark.parametrize(
    ("entry", "message", "field", "reason"),
    [
        ({"message": "too low"}, "Invalid value: too low", "spec", "FieldValueInvalid"),
        (
            {"messageExpression": "'got ' + string(self.n)", "message": "unused"},
            "Invalid value: got 1",
            "spec",
            "FieldValueInvalid",
        ),
        (
            {"messageExpression": "string(1 / (self.n - 1))", "message": "fallback"},
            "Invalid value: fallback",
            "spec",
            "FieldValueInvalid",
        ),
        (
            {"message": "no", "reason": "FieldValueForbidden", "fieldPath": ".n"},
            "Forbidden: no",
            "spec.n",
            "FieldValueForbidden",
        ),
        (
            {"message": "give one", "reason": "FieldValueRequired"},
            "Required value: give one",
            "spec",
            "FieldValueRequired",
        ),
        (
            {"message": "again", "reason": "FieldValueDuplicate"},
            "Duplicate value",
            "spec",
            "FieldValueDuplicate",
        ),
    ],
)
def test_messages_reasons_and_paths(
    entry: dict[str, Any], message: str, field: str, reason: str
) -> None:
    compiled = cel.compile_rules(kind({"rule": "self.n > 1"} | entry))
    (cause,) = compiled.validate(thing(n=1))
    assert (cause.message, cause.field, cause.reason) == (message, field, reason)


def test_messages_contain_scalar_values() -> None:
    port = {"port": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 3"}]}}
    (cause,) = cel.compile_rules(kind(**port)).validate(thing(port=2))
    assert (cause.field, cause.message) == ("spec.port", "Invalid value: 2: failed rule: self > 3")


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("self.n > 1", "no such key: n evaluating rule: self.n > 1"),
        ("self.m / 0 == 1", "division by zero evaluating rule: self.m / 0 == 1"),
        (
            "self.port > 3",
            (
                "'no such overload': call arguments did not match a supported operator, function "
                "or macro signature for rule: self.port > 3"
            ),
        ),
    ],
)
def test_rules_that_cannot_be_evaluated_refuse_the_object(rule: str, text: str) -> None:
    assert verdict(rule, m=1, port="x") == [f'Invalid value: "object": {text}']


# --- old and new --------------------------------------------------------------------------------


def test_transition_rules_apply_to_updates_only() -> None:
    rule = "self.n >= oldSelf.n"
    assert verdict(rule, n=1) == []
    assert verdict(rule, {"n": 1}, n=2) == []
    assert verdict(rule, {"n": 2}, n=1) != []


def test_optional_old_self_applies_to_creates_too() -> None:
    entry = {
        "rule": "oldSelf.hasValue() ? oldSelf.value().n == self.n : self.n == 0",
        "optionalOldSelf": True,
    }
    compiled = cel.compile_rules(kind(entry))
    assert compiled.faults == []
    assert compiled.validate(thing(n=0)) == []
    assert compiled.validate(thing(n=1)) != []
    assert compiled.validate(thing(n=5), thing(n=5)) == []
    assert compiled.validate(thing(n=5), thing(n=4)) != []


def test_items_are_compared_with_the_item_of_the_same_key() -> None:
    people = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "properties": {"name": TEXT, "age": INTEGER},
            "x-kubernetes-validations": [
                {"rule": "self.age >= oldSelf.age", "message": "nobody gets younger"}
            ],
        },
    }
    compiled = cel.compile_rules(kind(people=people))
    old = thing(people=[{"name": "a", "age": 1}, {"name": "b", "age": 5}])
    new = thing(people=[{"name": "b", "age": 4}, {"name": "c", "age": 0}, {"name": "a", "age": 1}])
    (cause,) = compiled.validate(new, old)
    assert cause.field == "spec.people[0]"
    assert cause.message == "Invalid value: nobody gets younger"


KEYED = {
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
    "days": {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": TEXT | {"format": "date"},
    },
}
"""Rules about them are answered as by ``apiserver/pkg/cel/common/values.go``."""


@pytest.mark.parametrize(
    ("rule", "old", "new", "holds"),
    [
        ("self.tags == oldSelf.tags", ["a", "b"], ["b", "a"], True),
        ("self.tags != oldSelf.tags", ["a", "b"], ["b", "a"], False),
        ("self.tags == oldSelf.tags", ["a", "b"], ["a", "c"], False),
        ("self.tags == oldSelf.tags", ["a", "b"], ["a", "b", "c"], False),
        ("self.tags == ['a', 'b']", ["b", "a"], ["b", "a"], True),
        ("['a', 'b'] == self.tags", ["b", "a"], ["b", "a"], False),
        ("self.tags + oldSelf.tags == ['c', 'a', 'b']", ["a", "b"], ["c", "a"], True),
        ("(self.tags + oldSelf.tags).size() == 3", ["a", "b"], ["c", "a"], True),
        ("(['x'] + self.tags + self.tags).size() == 5", [], ["c", "a"], True),
        ("self.tags.exists(t, t == 'a') && 'a' in self.tags", [], ["c", "a"], True),
        ("self.tags[1] == 'a' && self.tags[?1].hasValue()", [], ["c", "a"], True),
        ("self.tags.map(t, t) == ['c', 'a'] && type(self.tags) == list", [], ["c", "a"], True),
    ],
)
def test_sets_are_equal_in_any_order(
    rule: str, old: list[str], new: list[str], holds: bool
) -> None:
    compiled = cel.compile_rules(kind({"rule": rule}, **KEYED))
    assert compiled.faults == []
    assert (compiled.validate(thing(tags=new), thing(tags=old, n=1)) == []) == holds


def test_a_set_in_an_object_is_equal_in_any_order() -> None:
    compiled = cel.compile_rules(kind({"rule": "self == oldSelf"}, **KEYED))
    assert compiled.validate(thing(tags=["a", "b"]), thing(tags=["b", "a"])) == []
    assert compiled.validate(thing(tags=["a", "b"]), thing(tags=["b", "c"])) != []


def test_a_set_of_dates_is_not_equal_to_itself() -> None:
    """Upstream looks for a time among texts."""
    compiled = cel.compile_rules(kind({"rule": "self.days == self.days"}, **KEYED))
    assert compiled.validate(thing(days=["2026-01-02"])) != []
    assert compiled.validate(thing(days=[])) == []


@pytest.mark.parametrize(
    ("rule", "old", "new", "holds"),
    [
        ("self.people == oldSelf.people", {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("self.people == oldSelf.people", {"a": 1, "b": 2}, {"b": 2, "a": 3}, False),
        ("self.people == oldSelf.people", {"a": 1, "b": 2}, {"b": 2, "c": 1}, False),
        (
            "(oldSelf.people + self.people).map(p, p.age) == [1, 5, 3]",
            {"a": 1, "b": 2},
            {"b": 5, "c": 3},
            True,
        ),
        ("self.people + oldSelf.people == self.people", {"a": 1}, {"a": 1, "b": 2}, True),
    ],
)
def test_maps_are_equal_in_any_order(
    rule: str, old: dict[str, int], new: dict[str, int], holds: bool
) -> None:
    compiled = cel.compile_rules(kind({"rule": rule}))
    assert compiled.faults == []

    def people(ages: dict[str, int]) -> list[dict[str, Any]]:
        return [{"name": name, "age": age} for name, age in ages.items()]

    found = compiled.validate(thing(people=people(new)), thing(people=people(old), n=1))
    assert (found == []) == holds


def test_broken_rules_are_ratcheted_until_the_value_changes() -> None:
    rule = "self.n > 1"
    assert verdict(rule, {"n": 1, "s": "x"}, n=1, s="x") == []
    assert verdict(rule, {"n": 1, "s": "x"}, n=1, s="y") != []


def test_rules_below_lists_and_maps_report_the_path_of_the_item() -> None:
    entry = TEXT | {"x-kubernetes-validations": [{"rule": "self != ''", "message": "empty"}]}
    compiled = cel.compile_rules(
        kind(
            texts={"type": "array", "items": entry},
            labels={"type": "object", "additionalProperties": entry},
        )
    )
    found = compiled.validate(thing(texts=["a", ""], labels={"k": ""}))
    assert [cause.field for cause in found] == ["spec.texts[1]", "spec.labels[k]"]
    assert found[0].message == 'Invalid value: "": empty'


def test_a_rule_at_the_root_sees_name_and_spec() -> None:
    root = kind()
    root["x-kubernetes-validations"] = [
        {"rule": "self.metadata.name == self.spec.s", "message": "names differ"}
    ]
    compiled = cel.compile_rules(root)
    assert compiled.faults == []
    assert compiled.validate(thing(s="x")) == []
    (cause,) = compiled.validate(thing(s="y"))
    assert cause.field == "<nil>"


# --- rules that cannot be compiled --------------------------------------------------------------

PATH = ".properties[spec].x-kubernetes-validations[0]"


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("self.typo > 1", "undefined field 'typo'"),
        ("self.people.all(p, p.typo == 1)", "undefined field 'typo'"),
        ("self.metadata.name == 'x'", "undefined field 'metadata'"),
        ("self.s.x == 1", "undefined field 'x'"),
        ("self.n >", "Syntax error"),
        ("self.n > 1 &", "token recognition error at: '&'"),
        ("self.n < 'x'", "found no matching overload"),
        ("self.n + self.s == 'x'", "found no matching overload"),
        ("frobnicate(self.n)", "undeclared reference to 'frobnicate'"),
        ("self.s.frobnicate()", "undeclared reference to 'frobnicate'"),
        ("other.n == 1", "undeclared reference to 'other'"),
        ("self.?typo.orValue(1) == 1", "undefined field 'typo'"),
        ("cel.bind(x, self.n, x > 1)", "undeclared reference to"),
    ],
)
def test_rules_that_do_not_compile_are_reported(rule: str, text: str) -> None:
    ((field, message),) = faults(rule)
    assert field == f"{PATH}.rule"
    assert message.startswith('Invalid value: "')
    assert "compilation failed: ERROR: " in message
    assert text in message


def test_a_stored_rule_that_does_not_compile_refuses_every_object() -> None:
    compiled = cel.compile_rules(kind({"rule": "self.gone > 1"}, {"rule": "self.n > 1"}))
    (cause,) = compiled.validate(thing(n=2), thing(n=2))
    assert cause.field == "spec"
    assert cause.message.startswith(
        'Invalid value: "object": rule compile error: compilation failed: ERROR: <input>:1:5:'
        " undefined field 'gone'"
    )
    assert compiled.validate({"spec": None}) == []


def test_a_stored_rule_with_a_broken_message_expression_has_its_message() -> None:
    entry = {"rule": "self.n > 1", "message": "too low", "messageExpression": "self.gone"}
    compiled = cel.compile_rules(kind(entry))
    ((_, fault),) = [(cause.field, cause.message) for cause in compiled.faults]
    assert "messageExpression compilation failed: ERROR: " in fault
    (cause,) = compiled.validate(thing(n=1))
    assert cause.message == "Invalid value: too low"


def test_stored_rules_that_are_too_long_refuse_every_object() -> None:
    compiled = cel.compile_rules(kind({"rule": " || ".join(["self.n > 1"] * 3_000)}))
    (fault,), (cause,) = compiled.faults, compiled.validate(thing(n=2))
    assert "this server allows 30000" in fault.message
    assert "rule compiler initialization error: all rules of a version have" in cause.message


ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


@pytest.mark.parametrize(
    "field",
    [
        ANYTHING,
        {"type": "array", "items": ANYTHING},
        {"type": "object", "additionalProperties": ANYTHING},
        {"type": "array", "items": {"type": "array", "items": ANYTHING}},
    ],
)
def test_rules_cannot_access_fields_without_a_type(field: dict[str, Any]) -> None:
    (cause,) = cel.compile_rules(kind({"rule": "has(self.any)"}, any=field)).faults

    assert "undefined field 'any'" in cause.message
    typed = ANYTHING | {"type": "object"}
    assert cel.compile_rules(kind({"rule": "has(self.any)"}, any=typed)).faults == []
    listed = {"type": "array", "items": typed}
    assert cel.compile_rules(kind({"rule": "has(self.any)"}, any=listed)).faults == []


@pytest.mark.parametrize(
    ("rule", "entry", "field", "message"),
    [
        (" ", {}, "rule", "Required value: rule is not specified"),
        ("true", {"message": " "}, "message", 'Invalid value: " ": must be non-empty if specified'),
        (
            "true",
            {"message": "a\nb"},
            "message",
            'Invalid value: "a\\nb": must not contain line breaks',
        ),
        (
            "true\n&& true",
            {},
            "message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            "true",
            {"messageExpression": " "},
            "messageExpression",
            "Required value: messageExpression must be non-empty if specified",
        ),
        (
            "true",
            {"reason": "Because"},
            "reason",
            (
                'Unsupported value: "Because": supported values: "FieldValueDuplicate", '
                '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
            ),
        ),
        (
            "true",
            {"fieldPath": ".typo"},
            "fieldPath",
            'Invalid value: ".typo": must be a valid path',
        ),
        (
            "true",
            {"optionalOldSelf": True},
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ],
)
def test_invalid_entries(rule: str, entry: dict[str, Any], field: str, message: str) -> None:
    assert faults(rule, **entry) == [(f"{PATH}.{field}", message)]


def test_a_message_expression_is_checked_too() -> None:
    ((field, message),) = faults("true", messageExpression="'n: ' + self.typo")
    assert field == f"{PATH}.messageExpression"
    assert "undefined field 'typo'" in message


def test_old_self_is_refused_where_items_cannot_be_correlated() -> None:
    inner = {
        "type": "object",
        "properties": {"n": INTEGER},
        "x-kubernetes-validations": [{"rule": "self.n == oldSelf.n"}],
    }
    compiled = cel.compile_rules(kind(list={"type": "array", "items": inner}))
    (cause,) = compiled.faults
    assert cause.message.endswith(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        "openAPIV3Schema.properties[spec].properties[list]"
    )


def test_rules_are_skipped_while_the_object_is_invalid() -> None:
    known = schema.from_crd(kind({"rule": "self.n > 1"}), "t.io", "v1", "T")
    assert custom.validate(known, thing(n=2)) == []
    found = custom.validate(known, thing(n="x"))
    assert [cause.field for cause in found] == ["spec.n", "<nil>"]
    assert "some validation rules were not checked" in found[1].message


def test_a_schema_without_rules_has_none() -> None:
    compiled = cel.compile_rules({"type": "object", "properties": {"spec": {"type": "object"}}})
    assert not compiled
    assert compiled.validate(thing()) == []


# --- costs --------------------------------------------------------------------------------------

BOUNDED: dict[str, Any] = {
    "texts": {"type": "array", "maxItems": 100, "items": TEXT | {"maxLength": 100}},
    "labels": {"type": "object", "maxProperties": 100, "additionalProperties": TEXT},
}


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        ("self.texts.filter(t, t > 'a') == ['b']", "1.6x"),
        ("self.numbers.map(x, x * 2) == [2, 4]", "2.2x"),
        ("self.texts.all(x, self.texts.all(y, x != y))", "more than 100x"),
        ("self.texts.all(x, x.matches('^a+$'))", "more than 100x"),
        ("self.s.contains(self.s)", "more than 100x"),
    ],
)
def test_rules_that_may_cost_too_much_are_refused_as_upstream(rule: str, factor: str) -> None:
    compiled = cel.compile_rules(kind({"rule": rule}))
    assert compiled.faults == []
    cause = compiled.costly[0]
    assert (cause.reason, cause.field) == ("FieldValueForbidden", f"{PATH}.rule")
    assert f"estimated rule cost exceeds budget by factor of {factor} (try" in cause.message


@pytest.mark.parametrize(
    "rule",
    [
        "self.texts.all(x, self.texts.all(y, x != y))",
        "self.texts.all(x, x.matches('^a+$'))",
        "self.labels.all(key, key.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
    ],
)
def test_limits_of_the_schema_bound_the_cost(rule: str) -> None:
    compiled = cel.compile_rules(kind({"rule": rule}, **BOUNDED))
    assert (compiled.faults, list(compiled.costly)) == ([], [])


def test_the_cost_of_a_rule_counts_for_each_value_that_it_applies_to() -> None:
    entry = TEXT | {"x-kubernetes-validations": [{"rule": "self.matches('^a+$')"}]}
    listed = {"type": "array", "items": entry}
    limited = {"type": "array", "maxItems": 10, "items": entry | {"maxLength": 10}}
    assert cel.compile_rules(kind(texts=listed)).costly
    assert not cel.compile_rules(kind(texts=limited)).costly


def test_no_further_rules_are_evaluated_without_a_budget() -> None:
    rule = "self.numbers.all(x, self.numbers.all(y, x + y >= 0))"
    compiled = cel.compile_rules(kind({"rule": rule}, {"rule": "false"}))
    (cause,) = compiled.validate(thing(numbers=list(range(5_000))))
    assert cause.message == (
        'Invalid value: "object": validation failed due to running out of cost budget, no further'
        " validation rules will be run"
    )


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("self.s.matches('(')", "<input>:1:16: invalid matches argument"),
        ("duration('x') == duration('1s')", "<input>:1:10: invalid duration argument"),
        ("self.n in ['a']", "no matching overload for '@in' applied to '(int, list(string))'"),
        ("[1, 'a'].size() == 2", "<input>:1:5: expected type 'int' but found 'string'"),
        ("self.n", "cel expression must evaluate to a bool"),
        ("(" * 200 + "true" + ")" * 200, "expression recursion limit exceeded: 100"),
    ],
)
def test_the_words_of_the_checker(rule: str, text: str) -> None:
    ((_, message),) = faults(rule)
    assert text in message


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("int(self.s) == 1", "type conversion error from 'string' to 'int'"),
        ("self.texts[5] == 'a'", "index out of bounds: 5"),
        ("self.n + 9223372036854775807 > 0", "integer overflow"),
        ("self.s.matches(self.s)", "error parsing regexp: missing closing ): `x(`"),
        ("optional.none().value() == self.n", "optional.none() dereference"),
    ],
)
def test_the_words_of_the_evaluation(rule: str, text: str) -> None:
    found = verdict(rule, s="x(", n=1, texts=["a"])
    assert found == [f'Invalid value: "object": {text} evaluating rule: {rule}']


NULLABLE = {
    "limit": {"x-kubernetes-int-or-string": True, "nullable": True},
    "note": TEXT | {"nullable": True},
    "a-b": INTEGER | {"nullable": True},
}
"""A null field is absent, as by ``apiserver/pkg/cel/common/valuesunstructured.go``."""


@pytest.mark.parametrize(
    ("rule", "spec", "holds"),
    [
        ("has(self.note)", {"note": None}, False),
        ("!has(self.a__dash__b)", {"a-b": None}, True),
        ("!has(self.limit) || self.limit > 0", {"limit": None}, True),
        ("!has(self.port) || self.port > 0", {"port": None}, True),
        ("self.?note.hasValue()", {"note": None}, False),
        ("self.?note.orValue('x') == 'x'", {"note": None}, True),
        ("self.note == 'x'", {"note": None}, False),
        ("self == self", {"note": None, "limit": None, "n": 1}, True),
    ],
)
def test_a_null_field_is_absent(rule: str, spec: dict[str, Any], holds: bool) -> None:
    compiled = cel.compile_rules(kind({"rule": rule}, **NULLABLE))
    assert compiled.faults == []
    assert (compiled.validate(thing(**spec)) == []) == holds


def test_a_null_field_counts_when_objects_are_compared() -> None:
    compiled = cel.compile_rules(kind({"rule": "self == oldSelf"}, **NULLABLE))
    assert compiled.validate(thing(note=None, n=1), thing(limit=None, n=1)) == []
    assert compiled.validate(thing(note=None, n=1), thing(n=1)) != []


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            {
                "type": "object",
                "default": {},
                "properties": {"a": TEXT},
                "x-kubernetes-validations": [{"rule": "self.a == 'x'"}],
            },
            ".properties[spec].default",
            "no such key: a evaluating rule: self.a == 'x'",
        ),
        (
            {
                "type": "array",
                "items": TEXT | {"maxLength": 9, "x-kubernetes-validations": [{"rule": "false"}]},
                "maxItems": 3,
                "default": ["x"],
            },
            ".properties[spec].default[0]",
            "failed rule: false",
        ),
        (
            TEXT
            | {
                "default": "x",
                "maxLength": 9,
                "x-kubernetes-validations": [
                    {"rule": "oldSelf.hasValue() || self == 'y'", "optionalOldSelf": True}
                ],
            },
            ".properties[spec].default",
            "failed rule: oldSelf.hasValue() || self == 'y'",
        ),
    ],
)
def test_defaults_have_to_obey_the_rules(spec: dict[str, Any], field: str, message: str) -> None:
    compiled = cel.compile_rules({"type": "object", "properties": {"spec": spec}})
    (cause,) = compiled.default_faults()
    assert cause.field == field
    assert message in cause.message
    assert compiled.faults == []
