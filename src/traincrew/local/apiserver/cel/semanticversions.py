"""Semantic versions: the ``semver`` library.

Syntax, order and messages are those of github.com/blang/semver 4, normalization is that of
``k8s.io/apiserver/pkg/cel/library/semverlib.go``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .operators import CelError

__all__ = ["SemanticVersion", "parse_version"]

_DIGITS = re.compile(r"[0-9]+")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")
_LARGEST = (1 << 64) - 1


class SemanticVersion(NamedTuple):
    """A version.

    Attributes:
        prerelease: its identifiers, numbers as int; build metadata is not compared, nor kept.
    """

    major: int
    minor: int
    patch: int
    prerelease: tuple[int | str, ...] = ()

    def compare(self, other: SemanticVersion) -> int:
        """Return -1, 0 or 1: whether it is before, equal to, or after another version."""
        one, two = self._rank(), other._rank()
        return (one > two) - (one < two)

    def _rank(self) -> tuple[object, ...]:
        # A version comes after its prereleases, words come after numbers.
        words = [(type(each) is str, each) for each in self.prerelease]
        return self[:3], not words, words


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _number(text: str, what: str) -> int:
    if text and not _DIGITS.fullmatch(text):
        raise CelError(f"Invalid character(s) found in {what.lower()} number {_quoted(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{what} number must not contain leading zeroes {_quoted(text)}")
    return _unsigned(text)


def _unsigned(text: str) -> int:
    if not text:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > _LARGEST:
        raise CelError(f"strconv.ParseUint: parsing {_quoted(text)}: value out of range")
    return int(text)


def _identifier(text: str) -> int | str:
    """Parse a part of a prerelease."""
    if not text:
        raise CelError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            fault = "Numeric PreRelease version must not contain leading zeroes"
            raise CelError(f"{fault} {_quoted(text)}")
        return _unsigned(text)
    if not _IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in prerelease {_quoted(text)}")
    return text


def parse_version(text: str, normalize: bool = False) -> SemanticVersion:
    """Parse a version.

    Args:
        text: such as ``1.2.3-rc.1+build``.
        normalize: whether ``v1.2`` and leading zeros are allowed.

    Raises:
        CelError: it is none; in the words of upstream.
    """
    parts = _normalized(text) if normalize else text.split(".", 2)
    if not text and not normalize:
        raise CelError("Version string empty")
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    number, dash, prerelease = rest.partition("-")
    patch = _number(number, "Patch")
    words = tuple(map(_identifier, prerelease.split("."))) if dash else ()
    for each in build.split(".") if plus else ():
        if not each:
            raise CelError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(each):
            raise CelError(f"Invalid character(s) found in build meta data {_quoted(each)}")
    return SemanticVersion(major, minor, patch, words)


def _normalized(text: str) -> list[str]:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return parts


def _without_zeros(part: str) -> str:
    if len(part) < 2:
        return part
    rest = part.lstrip("0")
    return rest if _DIGITS.match(rest) else f"0{rest}"
