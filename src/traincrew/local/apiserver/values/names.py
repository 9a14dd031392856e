"""Syntax of names, labels and annotations.

Rules and messages: ``k8s.io/apimachinery/pkg/util/validation/validation.go``. Every function
returns the error message, or an empty string.
"""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = [
    "TEMPLATE_GENERATION",
    "config_map_key_fault",
    "label_1035_fault",
    "label_fault",
    "label_value_fault",
    "port_name_fault",
    "qualified_name_fault",
    "qualified_name_faults",
    "relaxed_env_var_name_fault",
    "subdomain_fault",
]

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""Annotation with a DaemonSet's template generation, a field of upstream's internal type."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_LABEL_RE = re.compile(_LABEL)
_SUBDOMAIN_RE = re.compile(_SUBDOMAIN)
_LABEL_1035_RE = re.compile(_LABEL_1035)
_QUALIFIED_RE = re.compile(_QUALIFIED)
_LABEL_VALUE_RE = re.compile(f"({_QUALIFIED})?")
_RELAXED_ENV_RE = re.compile("[ -<>-~]+")
_KEY_RE = re.compile("[-._a-zA-Z0-9]+")
_PORT_RE = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")

_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
    " start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for"
    f" validation is '{_LABEL}')"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'example.com', regex used for"
    r" validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
    f" regex used for validation is '{_LABEL_1035}')"
)
_NAME_PART_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    f" validation is '{_QUALIFIED}')"
)
_QUALIFIED_TEXT = (
    "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used"
    f" for validation is '{_QUALIFIED}') with an optional DNS subdomain prefix and '/'"
    " (e.g. 'example.com/MyName')"
)
_LABEL_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    f" '12345', regex used for validation is '({_QUALIFIED})?')"
)
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g."
    " 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


@lru_cache(maxsize=4096)
def label_fault(value: str) -> str:
    """Check an RFC 1123 label: names of namespaces, Services, StatefulSets, containers, volumes."""
    if len(value) > 63:
        return _too_long(63)
    if _LABEL_RE.fullmatch(value):
        return ""
    return "must not contain dots" if _SUBDOMAIN_RE.fullmatch(value) else _LABEL_TEXT


@lru_cache(maxsize=4096)
def subdomain_fault(value: str) -> str:
    """Check an RFC 1123 subdomain: names of most objects."""
    if len(value) > 253:
        return _too_long(253)
    return "" if _SUBDOMAIN_RE.fullmatch(value) else _SUBDOMAIN_TEXT


def label_1035_fault(value: str) -> str:
    """Check an RFC 1035 label: names in CustomResourceDefinitions."""
    if len(value) > 63:
        return _too_long(63)
    return "" if _LABEL_1035_RE.fullmatch(value) else _LABEL_1035_TEXT


@lru_cache(maxsize=4096)
def qualified_name_fault(value: str) -> str:
    """Check a key of labels or annotations: ``[prefix/]name``."""
    # The common case first.
    if len(value) <= 63 and _QUALIFIED_RE.fullmatch(value):
        return ""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return _QUALIFIED_TEXT
    if slash:
        if not prefix:
            return "prefix part must be non-empty"
        fault = subdomain_fault(prefix)
        if fault:
            return f"prefix part {fault}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return f"name part {_too_long(63, 'bytes')}"
    return "" if _QUALIFIED_RE.fullmatch(name) else f"name part {_NAME_PART_TEXT}"


def qualified_name_faults(value: str) -> tuple[str, ...]:
    """Return all errors of a key: of its prefix and its name; an empty name has two."""
    first = qualified_name_fault(value)
    prefix, slash, name = value.rpartition("/")
    if not first or "/" in prefix:
        return (first,) if first else ()
    found = []
    if slash:
        fault = subdomain_fault(prefix) if prefix else "must be non-empty"
        found += [f"prefix part {fault}"] if fault else []
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append(f"name part {_too_long(63, 'bytes')}")
    if not _QUALIFIED_RE.fullmatch(name):
        found.append(f"name part {_NAME_PART_TEXT}")
    return tuple(found)


@lru_cache(maxsize=4096)
def label_value_fault(value: str) -> str:
    """Check the value of a label."""
    if len(value) > 63:
        return _too_long(63, "bytes")
    return "" if _LABEL_VALUE_RE.fullmatch(value) else _LABEL_VALUE_TEXT


@lru_cache(maxsize=4096)
def relaxed_env_var_name_fault(value: str) -> str:
    """Check the name of an environment variable: printable ASCII but ``=`` (KEP-4369)."""
    if not value:
        return "environment variable name must not be empty"
    if _RELAXED_ENV_RE.fullmatch(value):
        return ""
    return (
        "a valid environment variable name must consist only of printable ASCII characters other"
        " than '='"
    )


def config_map_key_fault(value: str) -> str:
    """Check a key of a ConfigMap or Secret."""
    if len(value) > 253:
        return _too_long(253)
    if not _KEY_RE.fullmatch(value):
        return _KEY_TEXT
    if value in (".", ".."):
        return f"must not be '{value}'"
    return "must not start with '..'" if value.startswith("..") else ""


def port_name_fault(value: str) -> str:
    """Check the name of a container port (IANA service name)."""
    if len(value) > 15:
        return "must be no more than 15 characters"
    if not _PORT_RE.fullmatch(value):
        if not re.search("[a-z0-9]", value):
            return "must contain at least one letter (a-z)"
        return (
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
            if not re.fullmatch("[-a-z0-9]+", value)
            else "must not begin or end with a hyphen"
        )
    if not re.search("[a-z]", value):
        return "must contain at least one letter (a-z)"
    return "must not contain consecutive hyphens" if "--" in value else ""
