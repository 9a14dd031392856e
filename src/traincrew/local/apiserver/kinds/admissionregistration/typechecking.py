"""Whether the expressions of a policy fit the kinds that it matches: warnings, which deny nothing.

As upstream's ``typechecking.go`` (``k8s.io/apiserver/pkg/admission/plugin/policy/validating``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.cel.admission import CompilationError
from traincrew.local.apiserver.cel.celtypes import DYN
from traincrew.local.apiserver.values.documents import items

from .expressions import compile_in, source_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traincrew.local.apiserver.cel.celtypes import Type
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Checked", "checked_resources", "expression_warnings"]

_MAX_KINDS = 10
_MAX_SOURCE = 30_000
"""Characters that are compiled for one policy: with much source, fewer kinds are checked."""


class Checked(NamedTuple):
    """A kind whose objects a policy matches, in the order of warnings."""

    group: str
    version: str
    kind: str
    type: Type


def checked_resources(spec: Document) -> Iterator[tuple[str, str, str]]:
    """Yield group, version and plural of each resource that the rules of a policy name."""
    for rule in items(spec, "matchConstraints", "resourceRules"):
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in each for each in (*groups, *versions)):
            continue
        plurals = [each for each in rule.get("resources") or () if not {"*", "/"} & set(each)]
        for group in sorted(groups):
            for version in sorted(versions):
                for plural in sorted(plurals):
                    yield group, version, plural


def expression_warnings(
    spec: Document, kinds: Sequence[Checked], params: Type = DYN
) -> list[Document]:
    """Return the ``expressionWarnings`` of a policy. Pure.

    Args:
        spec: of the policy, which is valid.
        kinds: those that it matches.
        params: type of its parameters.
    """
    most = max(1, min(_MAX_KINDS, _MAX_SOURCE // max(source_size(spec), 1)))
    found: dict[str, list[str]] = {}
    for each in sorted(kinds, key=lambda kind: kind[:3])[:most]:
        programs = compile_in(spec, object_type=each.type, params_type=params)
        shown = f"{each.group}/{each.version}, Kind={each.kind}"
        pairs = zip(programs.validations, programs.messages, strict=True)
        for index, (validation, message) in enumerate(pairs):
            for name, program in (("expression", validation), ("messageExpression", message)):
                if isinstance(program, CompilationError):
                    reference = f"spec.validations[{index}].{name}"
                    found.setdefault(reference, []).append(f"{shown}: {program}\n")
    return [
        {"fieldRef": reference, "warning": "\n".join(texts)} for reference, texts in found.items()
    ]
