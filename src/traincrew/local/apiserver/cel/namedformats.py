"""Named formats: the ``format`` library.

The formats and their messages are those of ``k8s.io/apiserver/pkg/cel/library/format.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from traincrew.local.apiserver.values import names
from traincrew.local.apiserver.values.formats import is_format

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FORMATS", "NamedFormat", "uri_fault"]


class NamedFormat:
    """A format that texts can be validated against.

    Attributes:
        pattern_size: characters of its regular expression, as upstream takes them for costs.
        faults: returns the errors of a text; none if it has the format.
    """

    __slots__ = ("faults", "pattern_size")

    def __init__(self, pattern_size: int, faults: Callable[[str], list[str]]) -> None:
        self.pattern_size = pattern_size
        self.faults = faults


def _one(fault: Callable[[str], str]) -> Callable[[str], list[str]]:
    """Return the errors of a rule that has one at most."""
    return lambda text: [found] if (found := fault(text)) else []


def _prefix(named: NamedFormat) -> NamedFormat:
    """Return the format of the beginning of such names, which may end with a dash."""

    def faults(text: str) -> list[str]:
        masked = f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text
        return named.faults(masked)

    return NamedFormat(named.pattern_size, faults)


def _known(name: str, pattern_size: int, fault: str) -> NamedFormat:
    return NamedFormat(pattern_size, lambda text: [] if is_format(name, text) else [fault])


def uri_fault(text: str) -> str:
    """Return why a text is no URI or absolute path, in the words of Go's ``net/url``."""
    from json import dumps

    what = f"parse {dumps(text[:1_000], ensure_ascii=False)}"
    if not text:
        return f"{what}: empty url"
    if any(character < " " or character == "\x7f" for character in text):
        return f"{what}: net/url: invalid control character in URL"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return f"{what}: invalid URI for request"
    absolute = bool(parts.scheme and (parts.netloc or parts.path))
    if absolute or (not parts.scheme and text.startswith("/")):
        return ""
    return f"{what}: invalid URI for request"


_LABEL = NamedFormat(30, _one(names.label_fault))
_SUBDOMAIN = NamedFormat(60, _one(names.subdomain_fault))
_LABEL_1035 = NamedFormat(30, _one(names.label_1035_fault))

_UUID_SIZE = 70
_DATE_TIME_SIZE = 70

FORMATS = {
    "dns1123Label": _LABEL,
    "dns1123Subdomain": _SUBDOMAIN,
    "dns1035Label": _LABEL_1035,
    "qualifiedName": NamedFormat(60, lambda text: list(names.qualified_name_faults(text))),
    "dns1123LabelPrefix": _prefix(_LABEL),
    "dns1123SubdomainPrefix": _prefix(_SUBDOMAIN),
    "dns1035LabelPrefix": _prefix(_LABEL_1035),
    "labelValue": NamedFormat(40, _one(names.label_value_fault)),
    "uri": NamedFormat(1103, _one(uri_fault)),
    "uuid": _known("uuid", _UUID_SIZE, "does not match the UUID format"),
    "byte": _known("byte", 84, "invalid base64"),
    "date": _known("date", _DATE_TIME_SIZE, "invalid date"),
    "datetime": _known("datetime", _DATE_TIME_SIZE, "invalid datetime"),
}
"""The formats by name."""
