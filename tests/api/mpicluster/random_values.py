"""Values of kube-openmpi, right and wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from api.mpicluster.broken_values import PRIVATE, PUBLIC

if TYPE_CHECKING:
    import random

DIRECTORY = Path(__file__).with_name("values")
Document = dict[str, Any]

WHOLE = {"num", "updateEvery", "nodePort", "fetchWaitSecond"}
NUMBERS = [
    *(0, 1, 4, 5, -1, 1000, 1001, 3600, 3601, 65535, 65536, 86400, 86401, 2**31, 10**30, 2.0),
    *("0", "1", "010", "08", "9" * 25),
]
TEXTS = [
    *("", " ", "\t", "\v", "a b", "-x", "x\n", "a\u00a0b", "-", "é" * 64, "a" * 64),
    "a" * 62 + "-b",
    *("a" * 300, "a" * 1100, "A", "a.b_c", "a%sb", "a`b", 'a"b', "a\\b", "{{ x }}", "5", "true"),
    *("..", "x/../..", "examples/../a", "examples", "/examples/x/", "/x/", "/", "//", "/a:b"),
    *("https://me:pw@h/x", "https://me@h/x", "HTTPS://a@b/c", "ssh://git@h:99999/x", "h:x"),
    *("ssh://git@[::1]:22/x", "https://[::1/x", "https://:80/x", "https://h:8o/x", "https:///x"),
    *("file:///x", "FILE:/x", "file://h:x/y", "git@h:p://x", "a//b:c", "://x", "a://?x", "x:/y"),
    *("_EDIT_ME_", "<your_x>", "kube-openmpi-x", "cache", "scratch", "/cache/", "/private"),
    *("/kube-openmpi/generated/", "/ssh-key/openmpi", "/kube-openmpi/kube/x", "0123456789" * 4),
    *("a/b:c", "registry.example.com:5000/a/b", "1@sha256:" + "0" * 64, PRIVATE, PUBLIC),
]


def everything() -> Document:
    """Values with every key, and keys of ssh."""
    found: Document = yaml.safe_load((DIRECTORY / "everything.yaml").read_text())
    found |= yaml.safe_load((DIRECTORY / "ssh-key.yaml").read_text())
    return found


def values(chance: random.Random) -> Document:
    """Values of which some are other ones, which may be wrong."""
    found: Document = _changed(everything(), chance, 0.1 * chance.random())
    for key in ("sshGateway", "sshKey"):
        if chance.random() < 0.4:
            found.pop(key, None)
    return found | {"transport": chance.choice(["ssh", "exec"])}


def part(values: Document, chance: random.Random) -> Document:
    """A part of values: some keys are missing, some null, and some switches the other way."""
    found: Document = {}
    for key, value in values.items():
        draw = chance.random()
        if draw < 0.1:
            found[key] = None
        elif draw < 0.7:
            found[key] = value
            if isinstance(value, dict) and chance.random() < 0.8:
                found[key] = part(value, chance)
            elif isinstance(value, bool):
                found[key] = chance.random() < 0.5
    return found


def _changed(value: Any, chance: random.Random, share: float, key: str = "") -> Any:
    """Values of which a share is another one of the same type, which may be wrong."""
    match value:
        case dict():
            items = [each for each in value.items() if chance.random() > share / 4]
            return {key: _changed(inner, chance, share, key) for key, inner in items}
        case list():
            found = [_changed(inner, chance, share) for inner in value]
            return [*found, *chance.sample(found, int(chance.random() < share))]
        case bool():
            return chance.random() < 0.5
        case _ if chance.random() < share:
            return chance.choice(NUMBERS if key in WHOLE else TEXTS)
    return value
