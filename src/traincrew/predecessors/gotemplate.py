"""Writes documents and checks in the language of Helm's templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from traincrew.api.checks import Check, Each, Find, First, path_of
from traincrew.api.expressions import (
    Constant,
    ForEach,
    Get,
    Node,
    Text,
    When,
    get,
    gets,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.checks import Checks

_VARIABLE = re.compile(r"(\$\w+)")
_Wording = tuple[Callable[[str], str], Callable[[str], str]]
_NO_WORD = re.compile(r"\W")


def _as_it_is(text: str) -> str:
    return text


class Writer:
    """Writes a template, action by action.

    Args:
        chart: The chart, with a template ``<chart>.set``, which sets a key of a mapping.
    """

    def __init__(self, chart: str) -> None:
        self._chart = chart
        self._lines: list[str] = []
        self._depth = 0

    def text(self) -> str:
        """Return what was written."""
        return "".join(f"{line}\n" for line in self._lines)

    def line(self, action: str) -> None:
        """Write an action."""
        self._lines.append(f"{'  ' * self._depth}{{{{- {action} }}}}")

    def comment(self, text: str) -> None:
        """Write a comment, below an empty line."""
        self._lines += ["", f"{{{{- /* {text} */}}}}"]

    def output(self, pipeline: str) -> None:
        """Write an action whose value is a line of what the template renders."""
        self._lines.append(f"{{{{ {pipeline} }}}}")

    def opened(self, action: str) -> None:
        """Begin a block."""
        self.line(action)
        self._depth += 1

    @contextmanager
    def block(self, action: str) -> Iterator[None]:
        """Write a block with the actions of the context."""
        self.opened(action)
        yield
        self._depth -= 1
        self.line("end")

    def otherwise(self, action: str) -> None:
        """Go on with another case of a block."""
        self._depth -= 1
        self.opened(f"else {action}")

    def sections(self, variable: str, part: Any) -> None:
        """Write variables for the sections of a variable that parts of documents or checks get."""
        found = {
            each.keys[:length]
            for each in gets(part)
            if each.variable == variable
            for length in range(1, len(each.keys))
        }
        for keys in sorted(found):
            name = "_".join((f"${variable}", *keys))
            self.line(f"{name} := {get('.'.join((variable, *keys))).go()} | default dict")

    # -- documents --------------------------------------------------------------------------------

    def assign(self, name: str, part: Any) -> str:
        """Write a part of a document, and return its operand: a variable of a name, or a value."""
        variable = f"${name}"
        match part:
            case Node():
                return part.go()
            case When(test, inner):
                self.line(f'{variable} := ""')
                with self.block(f"if {_bare(test)}"):
                    self.line(f"{variable} = {self.assign(f'{name}_inner', inner)}")
            case ForEach(over, entry, inner):
                self.line(f"{variable} := list")
                with self.block(f"range ${entry} := {over.go()} | default list"):
                    self.line(
                        f"{variable} = append {variable} {self.assign(f'{name}_entry', inner)}"
                    )
            case Mapping():
                self.line(f"{variable} := dict")
                for key, inner in part.items():
                    operand = self.assign(f"{name}_{_NO_WORD.sub('_', key)}", inner)
                    self.line(f'include "{self._chart}.set" (list {variable} "{key}" {operand})')
            case list():
                entries = [self.assign(f"{name}_{index}", each) for index, each in enumerate(part)]
                return f"(list {' '.join(entries)})"
            case _:
                return Constant(part).go()
        return variable

    # -- checks -----------------------------------------------------------------------------------

    def checks(
        self,
        checks: Checks,
        key_of: Callable[[str], str] = _as_it_is,
        worded: Callable[[str], str] = _as_it_is,
    ) -> None:
        """Write checks, which append to ``$problems``.

        Args:
            checks: The checks.
            key_of: What a problem says for a field, which has variables in brackets.
            worded: What it says for a text.
        """
        self._checks(checks, {}, "", (key_of, worded))

    def _checks(
        self, checks: Checks, paths: Mapping[str, str], index: str, wording: _Wording
    ) -> None:
        for each in checks:
            match each:
                case Each(over, variable, inner, mapping):
                    place, empty = f"${variable}Key", "dict" if mapping else "list"
                    with self.block(f"range {place}, ${variable} := {over.go()} | default {empty}"):
                        inside = {**paths, variable: each.path(paths, place)}
                        self._checks(inner, inside, place, wording)
                case First((one, *others)):
                    with self.block(f"if {_bare(one.wrong)}"):
                        self._say(one, paths, wording)
                        for other in others:
                            self.otherwise(f"if {_bare(other.wrong)}")
                            self._say(other, paths, wording)
                case Check(_, wrong, _, find):
                    if find is not None:
                        self._find(find, index)
                    with self.block(f"if {_bare(wrong)}"):
                        self._say(each, paths, wording)

    def _say(self, check: Check, paths: Mapping[str, str], wording: _Wording) -> None:
        key_of, worded = wording
        key = _VARIABLE.split(f"{key_of(path_of(check.field, paths))}: ")
        says = check.says.parts if isinstance(check.says, Text) else (check.says,)
        parts = (
            *(Get(each[1:]) if each.startswith("$") else Constant(each) for each in key),
            *(
                Constant(worded(str(each.content))) if isinstance(each, Constant) else each
                for each in says
            ),
        )
        self.line(f"$problems = append $problems {Text(parts).go()}")

    def _find(self, find: Find, place: str) -> None:
        found, index = f"${find.found}", f"${find.variable}Index"
        before = f" (lt {index} {place})" if find.before else ""
        self.line(f"{found} := dict")
        over = f"{find.over.go()} | default list"
        with (
            self.block(f"range {index}, ${find.variable} := {over}"),
            self.block(f"if and (empty {found}){before} {find.test.go()}"),
        ):
            self.line(f"{found} = ${find.variable}")


def _bare(node: Node) -> str:
    """Return an operand without the parentheses around it, for the end of an action."""
    text = node.go()
    return text[1:-1] if text.startswith("(") else text
