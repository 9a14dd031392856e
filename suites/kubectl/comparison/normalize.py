"""Removes from output what differs in every run: times, identifiers, addresses, random names."""

from __future__ import annotations

import re

_HEX = "[0-9a-f]"
# The characters of generated names.
_SAFE = "[bcdfghjklmnpqrstvwxz2456789]"
_RULES: tuple[tuple[str, str], ...] = (
    (rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [+-]\d{4} \w+)?", "TIME"),
    (r"(resourceVersion\"?: )\"\d+\"", r"\1RV"),
    (r"^([IWE])\d{4} [\d:.]+ +\d+ [\w.]+:\d+\]", r"\1 LOG"),
    (r"https?://[\w.:\[\]]+:\d+(?:/[\w-]{16,})?", "URL"),
    (r"/tmp/[\w.-]*/?(LIVE|MERGED)-\d+", r"\1"),
    (r"(?:traincrew|containerd)://[0-9a-f]{64}", "CONTAINER"),
    (r"(?:sha256:)?[0-9a-f]{64}", "DIGEST"),
    (r"\b\d+\.\d+\.\d+\.\d+\b", "IP"),
    # A hash is a number of up to ten digits, written with these letters; few have less than nine.
    (rf"(?<=-){_SAFE}{{7,10}}-{_SAFE}{{5}}\b", "HASH-RANDOM"),
    (rf"(?<=-)(?:{_SAFE}{{9,10}}|(?=\w*\d){_SAFE}{{7,8}})\b(?!-)", "HASH"),
    (rf"(?<=[a-z]-)(?=\w*\d){_SAFE}{{5}}\b", "RANDOM"),
    (rf"(hello|now|shell|debugger|kube-api-access)-{_SAFE}{{5}}\b", r"\1-RANDOM"),
    (rf"(pod-template-hash=){_SAFE}+", r"\1HASH"),
    (r"(Resource Version: +)\d+", r"\1RV"),
    (r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+[smhd]\b(?: ago)?", "AGE"),
    (r"<invalid>", "AGE"),
    (r"\bnode-\d\b", "NODE"),
    (r"\(x\d+ over AGE\)", "(xN over AGE)"),
)
_COMPILED = [(re.compile(pattern, re.MULTILINE), new) for pattern, new in _RULES]
_GAP = re.compile(r"(?<=\S)(?:\t+| {2,})")


def normal(text: str, values: dict[str, str]) -> list[str]:
    """Return the lines of an output in normalized form.

    Args:
        text: The output.
        values: Values of the placeholders: each is replaced by its name.
    """
    for name in sorted(values, key=lambda name: -len(values[name])):
        text = text.replace(values[name], "{" + name + "}")
    for pattern, new in _COMPILED:
        text = pattern.sub(new, text)
    return [_GAP.sub("  ", line).rstrip() for line in text.splitlines()]
