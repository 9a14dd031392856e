"""The commands of commands.toml."""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
IMAGE = "docker.io/traincrew/busybox:0.1.0"
_UNTIL, _INPUT = "until ", "input "


@dataclass(frozen=True)
class Command:
    """A line of commands.toml.

    Attributes:
        text: The line as written there.
        words: The arguments of kubectl, with placeholders.
        stdin: Standard input.
        awaited: Wait until it prints this, or succeeds (`*`); None to compare its output.
    """

    text: str
    words: tuple[str, ...]
    stdin: str = ""
    awaited: str | None = None

    def arguments(self, values: dict[str, str]) -> list[str]:
        """Return the arguments, with values for the placeholders."""
        return [fill(word, values) for word in self.words]

    @property
    def shown(self) -> str:
        """The command as the documentation shows it."""
        text = self.text.replace("{manifests}/", "").replace("{id}-", "").replace("{id}.", "")
        typed, pipe, rest = text.removeprefix(_INPUT).partition(" | ")
        return f"echo {typed} | kubectl {rest}" if self.stdin and pipe else f"kubectl {text}"


@dataclass(frozen=True)
class Group:
    """Commands that run in order in a namespace of their own.

    Attributes:
        alone: Run it alone, because it affects the whole cluster.
    """

    name: str
    commands: tuple[Command, ...]
    alone: bool = False


def fill(text: str, values: dict[str, str]) -> str:
    """Substitute placeholders; other braces stay."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def _command(text: str) -> Command:
    if text.startswith(_UNTIL):
        rest, _, awaited = text.removeprefix(_UNTIL).rpartition(" = ")
        return Command(text, tuple(rest.split(" ")), awaited=awaited.strip())
    if text.startswith(_INPUT):
        typed, _, rest = text.removeprefix(_INPUT).partition(" | ")
        return Command(text, tuple(shlex.split(rest)), stdin=typed + "\n")
    # The quotes of JSON are not those of the shell.
    words = tuple(shlex.split(text)) if "'" in text else tuple(text.split(" "))
    return Command(text, words)


def load() -> list[Group]:
    """Return all groups, in order."""
    document = tomllib.loads((HERE / "commands.toml").read_text())
    return [
        Group(
            each["name"],
            tuple(_command(text) for text in each["commands"]),
            alone=each.get("alone", False),
        )
        for each in document["group"]
    ]
