"""General code of the API server names no built-in kind; the exceptions are in the design note."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from traincrew.local.apiserver.kinds.builtin import builtin_resources

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "traincrew" / "local" / "apiserver"
NOTE = "docs/design/builtin-kinds.md"
NAMES = {
    name
    for resource in builtin_resources()
    for name in (resource.kind, resource.plural, resource.identifier)
}
# Words that are also something else: a struct of CEL's syntax tree.
OTHER_MEANINGS = {"cel/syntax.py": {"Node"}}


def names_in(path: Path) -> set[str]:
    """Return the kinds and resources that a module has as texts."""
    tree = ast.parse(path.read_text())
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return texts & NAMES


def naming() -> dict[str, set[str]]:
    """Return the modules outside of the kinds that name any, with what they name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith("kinds/"):
            found[name] = names_in(path) - OTHER_MEANINGS.get(name, set())
    return {name: names for name, names in found.items() if names}


def listed() -> set[str]:
    """Return the files and, with a slash at the end, directories in the table of the note."""
    page = (ROOT / NOTE).read_text()
    section = page.partition("## Outside of the kinds\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {path for row in rows for path in re.findall("`(.+?)`", row)}


def test_general_code_names_no_built_in_kind() -> None:
    found, known = naming(), listed()
    directories = tuple(path for path in known if path.endswith("/"))
    new = {
        name: sorted(names)
        for name, names in found.items()
        if name not in known and not name.startswith(directories)
    }
    assert new == {}, f"ask the strategy of the resource, or list the file in {NOTE}"
    gone = [path for path in known if not any(name.startswith(path) for name in found)]
    assert gone == [], f"{NOTE} lists files that name no kind (any more)"


def test_every_built_in_resource_has_a_strategy_of_its_own() -> None:
    kinds = [(each.group, each.version, each.kind) for each in builtin_resources()]
    assert len(kinds) == len(set(kinds))
    asked = {id(each.strategy) for each in builtin_resources()}
    for path in (SOURCE / "kinds").glob("*/*.py"):
        name = path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
        if "\nSTRATEGY = " in path.read_text():
            assert id(import_module(name).STRATEGY) in asked, f"no resource has that of {name}"


def test_a_server_starts_without_the_rules_of_kinds_that_nobody_uses() -> None:
    program = (
        "import sys; from traincrew.local.apiserver.kinds.builtin import builtin_resources\n"
        "assert builtin_resources()\n"
        "print(*(name for name in sys.modules if 'STRATEGY' in vars(sys.modules[name])))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.split() == []
