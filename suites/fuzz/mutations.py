"""Random changes to JSON documents, and JSON texts that an encoder would not write."""

from __future__ import annotations

import copy
import json
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suites.differential.random_choice import RandomChoice


class Raw(str):
    """A piece of JSON text that is written as it is."""

    __slots__ = ()


TEXTS = [
    "",
    "a",
    "A_B",
    "../../etc/passwd",
    "/abs",
    "é" * 40,
    "\x00\x1b[2J\x7f",
    "\u202e",
    "\U0001f600",
    "10.0.0.1",
    "50%",
    "-1",
    "1e400",
    "0x10",
    "null",
    "2026-02-30T25:61:61Z",
    "2027-01-15T08:00:00.123456789123Z",
    "9999999999999999999Gi",
    "1e3Mi",
    "${{ x }}",
    "$(A)$(B)",
    "%s%n%00",
    "{" * 50,
    "x" * 300,
    "x" * 70_000,
]
NUMBERS = [
    0,
    -1,
    1,
    2**31,
    2**32,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    10**30,
    0.1,
    -0.0,
    1e308,
    Raw("1e999"),
    Raw("-1E-999"),
    Raw("1" * 5_000),
    Raw("1.0000000000000000000000001"),
]
ODD = [
    Raw('"\\ud800"'),
    Raw('"\\udc00\\ud800"'),
    Raw('"\\u0000"'),
    Raw("NaN"),
    Raw("-Infinity"),
    Raw("01"),
    Raw("'x'"),
    Raw('"\x01"'),
    Raw("tru"),
    Raw('{"a":1,"a":2,"a":{"b":1}}'),
    Raw("[" * 300 + "]" * 300),
    Raw("[" * 5_000),
    Raw('{"a":' * 400 + "1" + "}" * 400),
]
KEYS = ["", "a", "name", "metadata", "$patch", "$deleteFromPrimitiveList/a", "$retainKeys",
        "$setElementOrder/containers", "__proto__", "x" * 5_000, "é", "a.b/c", "\x00",
        "kind", "apiVersion", "status", "f:a", "<<"]  # fmt: skip
REPEATED = [2, 10, 300, 2_000]
MOST_PLACES = 500_000
"""Of those that are changed next."""
MOST_CHARACTERS = 8_000_000
"""Of a document; no server takes as much."""


def odd_value(choice: RandomChoice) -> Any:
    """Return a value that is rarely what a field takes."""
    match choice.number(0, 9):
        case 0 | 1 | 2:
            return choice.one(TEXTS)
        case 3 | 4:
            return choice.one(NUMBERS)
        case 5:
            return choice.one(ODD)
        case 6:
            return choice.one([None, True, False])
        case 7:
            return [odd_value(choice) for _ in range(choice.number(0, 2))]
        case _:
            return {choice.one(KEYS): odd_value(choice) for _ in range(choice.number(0, 2))}


def mutated(choice: RandomChoice, document: Any, most: int = 3) -> Any:
    """Return a document with up to so many changes."""
    document = copy.deepcopy(document)
    for _ in range(choice.number(0, most)):
        places = list(islice(_places(document), MOST_PLACES))
        if not places:
            return odd_value(choice)
        container, key = choice.one(places)
        _change(choice, container, key)
    return document


def _places(value: Any) -> Any:
    """Yield every container with every key or index in it."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield value, key
            yield from _places(item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _places(item)


def _change(choice: RandomChoice, container: Any, key: Any) -> None:
    match choice.number(0, 7):
        case 0 | 1 | 2:
            container[key] = odd_value(choice)
        case 3:
            del container[key]
        case 4:
            container[key] = [container[key]]
        case 5:
            if isinstance(container[key], (list, str)):
                times = choice.one(REPEATED)
                if len(container[key]) * times <= MOST_CHARACTERS:
                    container[key] = container[key] * times
            else:
                container[key] = {choice.one(KEYS): container[key]}
        case 6:
            if isinstance(container, dict):
                container[choice.one(KEYS)] = odd_value(choice)
            else:
                container.append(odd_value(choice))
        case _:
            if isinstance(container[key], dict):
                inner = copy.deepcopy(container[key])
                container[key][choice.one(KEYS)] = inner
            else:
                container[key] = {"a": container[key]}


def json_text(value: Any) -> str:
    """Write a document with the `Raw` pieces in it; a huge one ends in the middle.

    What is repeated within something that is repeated may have gigabytes.
    """
    pieces: list[str] = []
    left = MOST_CHARACTERS
    for piece in _pieces(value):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            break
    return "".join(pieces)


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, Raw):
        yield str(value)
    elif isinstance(value, dict):
        yield "{"
        for index, (key, item) in enumerate(value.items()):
            yield f"{',' if index else ''}{json.dumps(key)}:"
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for index, item in enumerate(value):
            if index:
                yield ","
            yield from _pieces(item)
        yield "]"
    else:
        yield json.dumps(value)


def json_body(choice: RandomChoice, value: Any) -> bytes:
    """Write a document, sometimes damaged."""
    text = json_text(value)
    if choice.maybe(0.03) and len(text) > 2:
        place = choice.number(0, len(text) - 1)
        text = text[:place] + choice.one(["", "}", ",", '"', "\\", "\ufeff"]) + text[place + 1 :]
    body = text.encode("utf-8", "surrogatepass")
    if choice.maybe(0.02):
        place = choice.number(0, len(body))
        body = body[:place] + bytes([choice.number(0, 255)]) + body[place:]
    return body
