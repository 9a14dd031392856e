"""Definitions with CEL rules and patterns, and YAML, that are expensive to serve."""

from collections.abc import Callable
from typing import Any

from local.apiserver.attack_bodies import LIMIT, encoded
from local.apiserver.attacks import Attack
from local.apiserver.support import APPLY, DEFINITIONS, MAPS, WIDGETS, definition, widget

YAML = "application/yaml"
TEXT = {"type": "string"}
FIELDS: dict[str, Any] = {
    "size": {"type": "integer"},
    "text": TEXT,
    "part": TEXT,
    "numbers": {"type": "array", "maxItems": 50_000, "items": {"type": "integer"}},
    "texts": {"type": "array", "maxItems": 50_000, "items": TEXT},
}
LONG_LIST = {"numbers": list(range(40_000))}
TEXTS = {"texts": [str(index) for index in range(40_000)]}


def with_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a definition whose spec has this schema."""
    document = definition()
    version = document["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {"spec": schema}}
    del version["subresources"], version["additionalPrinterColumns"]
    return document


def ruled(*rules: str, **entry: str) -> dict[str, Any]:
    return with_schema(
        {
            "type": "object",
            "properties": FIELDS,
            "x-kubernetes-validations": [{"rule": rule} | entry for rule in rules],
        }
    )


def compiling(codes: tuple[int, ...], *rules: str, **entry: str) -> Attack:
    """A definition with rules that are expensive to compile."""
    return Attack(lambda: encoded(ruled(*rules, **entry)), codes, path=DEFINITIONS)


def evaluating(code: int, rule: str, make: Callable[[], dict[str, Any]], **entry: str) -> Attack:
    """An object whose rule is expensive to evaluate."""
    return Attack(
        lambda: encoded(widget("a", **make())),
        (code,),
        path=WIDGETS,
        stored=((DEFINITIONS, lambda: ruled(rule, **entry)),),
        unlimited=True,
    )


def values_of_yaml(count: int) -> bytes:
    lines = "".join(f"  k{index}: v{'x' * 50}\n" for index in range(count))
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata:\n{lines}".encode()


def filled(before: str, item: str, after: str = "") -> bytes:
    return f"{before}{item * ((LIMIT - len(before) - len(after)) // len(item))}{after}".encode()


def nested_rules(levels: int) -> dict[str, Any]:
    """Return a definition with a rule at each level above a long list that has to be converted."""
    schema: dict[str, Any] = {
        "type": "array",
        "maxItems": 50_000,
        "items": {"type": "number"},
        "x-kubernetes-validations": [{"rule": "size(self) > 0"}],
    }
    for _ in range(levels):
        schema = {
            "type": "object",
            "properties": {"x": schema},
            "x-kubernetes-validations": [{"rule": "has(self.x)"}],
        }
    return with_schema(schema)


def nested_numbers(levels: int) -> bytes:
    value: Any = list(range(40_000))
    for _ in range(levels):
        value = {"x": value}
    return encoded(widget("a") | {"spec": value})


def item_rules() -> dict[str, Any]:
    numbers = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= 0"}]}
    listed = {"type": "array", "maxItems": 50_000, "items": numbers}
    return with_schema({"type": "object", "properties": {"numbers": listed, "size": TEXT}})


def patterned(pattern: str) -> dict[str, Any]:
    return with_schema(
        {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "text": TEXT | {"pattern": pattern}},
        }
    )


def patterns(count: int, pattern: str) -> bytes:
    properties = {
        f"p{index}": TEXT | {"pattern": pattern.replace("#", str(index))} for index in range(count)
    }
    return encoded(with_schema({"type": "object", "properties": properties}))


def matching(pattern: str, text: str, code: int = 422) -> Attack:
    return Attack(
        lambda: encoded(widget("a", text=text)),
        (code,),
        path=WIDGETS,
        stored=((DEFINITIONS, lambda: patterned(pattern)),),
    )


def yaml(body: Callable[[], bytes], *codes: int) -> Attack:
    return Attack(body, codes, kind=YAML)


EVIL = "^(a+)+$"
HALF = 1_500_000
RULE_ATTACKS = {
    "200,000 characters of CEL": compiling((422,), "1" + "+1" * 100_000 + " > 0"),
    "a chain of sums": compiling((422,), "1" + "+1" * 14_000 + " > 0"),
    "a chain of alternatives": compiling((201,), "||".join(["true"] * 4_900)),
    "nested brackets": compiling((422,), "(" * 14_000 + "true" + ")" * 14_000),
    "nested lists": compiling((422,), "[" * 14_000 + "]" * 14_000 + " == []"),
    "unclosed brackets": compiling((422,), "(" * 29_000),
    "nested calls": compiling((422,), "size(" * 5_000 + "self.text" + ")" * 5_000),
    "negations": compiling((201,), "!" * 28_000 + "true"),
    "selections": compiling((422,), "self" + ".a" * 14_000),
    "a long literal list": compiling((201, 422), "1 in [" + ",".join(["1"] * 14_000) + "]"),
    "escapes": compiling((201,), "self.text != '" + "\\\\" * 14_000 + "'"),
    "undeclared names": compiling((422,), "||".join(["x"] * 9_000)),
    "2,900 rules": compiling((201,), *["self.text=='']"[:-1]] * 1_900),
    "10,000 rules": compiling((422,), *["true"] * 10_000),
    "20,000 broken rules": compiling((422,), *["x"] * 20_000),
    "a long message expression": compiling(
        (422,), "true", messageExpression="'a'" + "+'a'" * 50_000
    ),
    "a list for each item of a list": evaluating(
        422, "self.numbers.all(x, self.numbers.all(y, x + y >= 0))", lambda: LONG_LIST
    ),
    "an expensive list": evaluating(201, "self.numbers.all(x, x >= 0)", lambda: LONG_LIST),
    "a joined list of one text": evaluating(
        422,
        "self.numbers.map(x, self.text).join('').size() > 0",
        lambda: LONG_LIST | {"text": "x" * HALF},
    ),
    "sums of texts": evaluating(
        422,
        "self.numbers.map(x, self.text + self.text).size() > 0",
        lambda: LONG_LIST | {"text": "x" * HALF},
    ),
    "sums of texts in a message": evaluating(
        422,
        "false",
        lambda: LONG_LIST | {"text": "x" * HALF},
        messageExpression="self.numbers.map(x, self.text + self.text).join('')",
    ),
    "replaced texts": evaluating(
        422, "self.text.replace('x', self.text) != ''", lambda: {"text": "x" * HALF}
    ),
    "a formatted text": evaluating(
        422,
        f"'{'%s' * 90}'.format([{', '.join(['self.text'] * 90)}]) != ''",
        lambda: {"text": "x" * HALF},
    ),
    "a formatted tree of one text": evaluating(
        422,
        "optional.of([self.text])" + ".optMap(x, [x, x])" * 20 + ".optMap(x, '%s'.format([x]))"
        ".hasValue()",
        lambda: {"text": "x"},
    ),
    "equal trees": evaluating(
        422,
        "optional.of([self.text])" + ".optMap(x, [x, x])" * 20 + ".optMap(x, x == x).value()",
        lambda: {"text": "x"},
    ),
    "characters of a text": evaluating(
        422, "self.text.split('').size() > 0", lambda: {"text": "é" * 500_000}
    ),
    "a huge range": evaluating(422, "lists.range(1000000000).size() > 0", dict),
    "distinct texts": evaluating(422, "self.texts.distinct().size() > 0", lambda: TEXTS),
    "sets": evaluating(422, "sets.equivalent(self.texts, self.texts)", lambda: TEXTS),
    "slow functions": evaluating(
        422,
        "self.texts.all(x, ip('::1').isLoopback() && isURL('http://a/' + x) &&"
        " quantity(x).isLessThan(quantity('1Gi')))",
        lambda: TEXTS,
    ),
    "a part of a text": evaluating(
        422,
        "self.text.contains(self.part)",
        lambda: {"text": "a" * HALF, "part": "a" * 700_000 + "b" + "a" * 700_000},
    ),
    "a backtracking pattern in CEL": evaluating(
        422, f"self.text.matches('{EVIL}')", lambda: {"text": "a" * 100_000 + "!"}
    ),
    "a wide pattern in CEL": evaluating(
        422, "self.text.matches('(a|b)*a(a|b){400}c')", lambda: {"text": "ab" * HALF}
    ),
    "matches of a pattern in CEL": evaluating(
        422, "self.text.findAll('.').size() > 0", lambda: {"text": "é" * 500_000}
    ),
    "rules of items": Attack(
        lambda: encoded(widget("a") | {"spec": LONG_LIST}),
        (201, 422),
        path=WIDGETS,
        stored=((DEFINITIONS, item_rules),),
    ),
    "nested rules": Attack(
        lambda: nested_numbers(100),
        (201, 422),
        path=WIDGETS,
        stored=((DEFINITIONS, lambda: nested_rules(100)),),
    ),
    "a definition of nested rules": Attack(
        lambda: encoded(nested_rules(110)), (201,), path=DEFINITIONS
    ),
    "a backtracking pattern": matching(EVIL, "a" * 100_000 + "!"),
    "a backtracking pattern, 3 MB": matching(EVIL, "a" * 3_000_000 + "!"),
    "a wide pattern": matching("(a|b)*a(a|b){400}c", "ab" * HALF),
    "a long pattern": matching("(a|b)*a(a|b){50}c", "ab" * 150_000),
    "patterns": Attack(lambda: patterns(5_000, "^a#(b+)+$"), (201,), path=DEFINITIONS),
    "too many patterns": Attack(lambda: patterns(12_000, "^a#(b+)+$"), (422,), path=DEFINITIONS),
    "large patterns": Attack(
        lambda: patterns(200, "#" + "(a|[b-z]+)" * 1_400), (201,), path=DEFINITIONS
    ),
    "repetitions": Attack(
        lambda: patterns(5_000, "#((a{1,30}){1,30}){1,2}"), (201, 422), path=DEFINITIONS
    ),
    "values of YAML": yaml(lambda: values_of_yaml(45_000), 422),
    "applied values of YAML": Attack(
        lambda: values_of_yaml(20_000), (201,), "PATCH", f"{MAPS}/a?fieldManager=me", APPLY
    ),
    "too many values of YAML": yaml(lambda: filled("{metadata: {name: a}, x: [", "1,", "]}"), 413),
    "quoted values of YAML": yaml(lambda: filled("{metadata: {name: a}, x: [", "'',", "]}"), 413),
    "a long text of YAML": yaml(lambda: filled("metadata: {name: a}\ndata: {a: '", "x", "'}"), 422),
    "a folded text of YAML": yaml(
        lambda: filled("metadata: {name: a}\ndata:\n  a: >\n", "   x\n"), 422
    ),
    "a long number of YAML": yaml(
        lambda: filled("metadata: {name: a}\ndata: {a: ", "1:", "1}"), 422
    ),
    "comments of YAML": yaml(lambda: filled("metadata: {name: a}\n", "# x\n"), 201),
    "nested sequences of YAML": yaml(lambda: filled("", "- ", "x"), 400),
    "nested keys of YAML": yaml(lambda: filled("", "? ", "x"), 400),
    "directives of YAML": yaml(
        lambda: "".join(f"%TAG !a{index}! tag:x:\n" for index in range(100_000)).encode(), 400
    ),
    "aliases of one text of YAML": yaml(
        lambda: filled("metadata: {name: a}\nx: &a ", "x", "\ny: [*a, *a, *a]"), 413
    ),
}
