"""Small YAML that stands for much, and what else readers of YAML fall for."""

from __future__ import annotations


def _levels(first: str, following: str, count: int) -> str:
    text = [f"a0: &a0 {first}"]
    for number in range(1, count):
        nested = ", ".join([f"*a{number - 1}"] * 10)
        text.append(f"a{number}: &a{number} {following.format(nested)}")
    return "\n".join(text)


YAML_BOMBS: dict[str, tuple[str, int]] = {
    "aliases": (_levels("[x]", "[{}]", 9), 9),
    "merges": (_levels("{x: y}", "{{<<: [{}]}}", 9), 9),
    "deep lists": ("[" * 100_000, 1),
    "deep objects": ("{a: " * 20_000, 1),
    "deep blocks": ("\n".join(" " * number + "a:" for number in range(1200)), 251),
    "many values": ("a: [" + "x, " * 200_000 + "]", 1),
    "a long number": ("a: " + "9" * 10_000, 1),
    "a tagged long number": ("a: !!int " + "9" * 10_000, 1),
    "a list in itself": ("a: 1\nb: &m [*m]", 2),
    "an object in itself": ("a: 1\nb: &m {c: *m}", 2),
    "an object merged into itself": ("a: 1\nb: &m {<<: *m}", 2),
    "a merge of a text": ("a: 1\nb: {<<: x}", 2),
    "binary": ("a: 1\nb: !!binary '#'", 2),
    "a program": ("a: !!python/object/apply:os.system [exit 1]", 1),
    "a set": ("a: !!set {x, y}", 1),
    "pairs": ("a: !!omap [x: y]", 1),
    "no integer": ("a: !!int ''", 1),
    "no boolean": ("a: !!bool x", 1),
    "infinity": ("a: .inf", 1),
    "a surrogate": ('a: "\\ud800"', 1),
    "a null key": ("a: 1\n~: x", 2),
    "no end": ("a: 1\nb: [", 3),
    "tag handles": ("".join(f"%TAG !{n}! x:\n" for n in range(60)) + "---\na: 1", 0),
}
"""Text, and the line of the refusal; 0 for any."""

SEXAGESIMAL = "a: !!int '1" + ":1" * 200_000 + "'"
"""A number of base 60, whose value has hundreds of thousands of digits."""
