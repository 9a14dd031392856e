"""Random YAML: what the format has and JSON has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from suites.differential.random_choice import RandomChoice

VALUES = [
    "&a x",
    "*a",
    "*missing",
    "&a [*a]",
    "!!binary aGVsbG8=",
    "!!binary '?'",
    "!!set {a, b}",
    "!!omap [a: 1]",
    "!!python/object/apply:os.system [id]",
    "!custom x",
    "!!int x",
    "!!float .inf",
    ".nan",
    "-.INF",
    "2026-11-24",
    "2026-11-24T10:00:00.5+05:00",
    "9999-99-99",
    "0777",
    "0b11",
    "190:20:30",
    "1_000",
    "0x" + "f" * 300,
    "9" * 5_000,
    "yes",
    "~",
    "? [a, b]\n  : c",
    "{1: a, 1.0: b, true: c, ~: d}",
    "{a: 1, a: 2}",
    "{<<: {a: 1}, <<: [{b: 2}]}",
    "{<<: x}",
    "'\\'",
    '"\\uD800"',
    '"\\x00"',
    "|\n   text\n    more",
    ">-\n   folded\n\n   text",
    "[" * 120 + "]" * 120,
    "%",
    "@x",
    "`x`",
    "\t",
    "- a\n- b",
]
AROUND = ["%YAML 9.9\n---\n", "%TAG ! tag:x,2000:\n---\n", "---\n", "--- |\n", "\ufeff", "# \x07\n"]


def text(choice: RandomChoice, document: Any) -> str:
    """Return a document with odd lines at its end, in its middle, or around it."""
    plain = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False)
    lines = plain.splitlines()
    for _ in range(choice.number(0, 3)):
        value = choice.one(VALUES)
        index = choice.number(0, len(lines) - 1) if lines else 0
        key, colon, _ = lines[index].partition(": ") if lines else ("a", ": ", "")
        if colon and choice.maybe(0.7):
            lines[index] = f"{key}: {value}"
        else:
            lines.append(f"extra{choice.number(0, 9)}: {value}")
    if choice.maybe(0.05):
        lines = [laughs(choice), *lines]
    result = "\n".join(lines)
    if choice.maybe(0.1):
        result = choice.one(AROUND) + result
    if choice.maybe(0.05):
        result += choice.one(["\n---\na: 1", "\n...\n%", "\n \t- x", "\n--- {"])
    return result


def laughs(choice: RandomChoice) -> str:
    """Return aliases of aliases."""
    levels, width = choice.number(2, 9), choice.number(2, 9)
    lines = ["a0: &a0 [x, x]"]
    lines += [
        f"a{each}: &a{each} [{', '.join([f'*a{each - 1}'] * width)}]" for each in range(1, levels)
    ]
    return "\n".join(lines)
