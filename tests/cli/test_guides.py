"""The commands that README and guides show exist, with these options and words."""

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest

from traincrew.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BEFORE = re.compile(r"(?:\$ |eval \"\$\()?(?:\.venv/bin/)?")
_END = re.compile(r"[|;&<>()]")


def commands(page: Path) -> list[list[str]]:
    """Return the words of each command of ours in the blocks of a page."""
    found = []
    for block in _BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            before, called, rest = line.partition("traincrew ")
            if called and _BEFORE.fullmatch(before):
                words = shlex.split(_END.split(rest)[0].replace('"', " "), comments=True)
                if words and "…" not in words:
                    found.append(words)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_exist(page: Path) -> None:
    for words in commands(page):
        name, *rest = words
        if name.startswith("-"):
            continue
        assert name in COMMANDS, words
        command = getattr(
            importlib.import_module(f"traincrew.cli.commands.{name}"), f"{name}_command"
        )
        if isinstance(command, click.Group) and rest:
            word, *rest = rest
            command = command.commands[word]
        context = click.Context(command, info_name=name, parent=click.Context(cli))
        command.make_parser(context).parse_args(rest)  # raises what is wrong with an option


def test_commands_are_found() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 50
