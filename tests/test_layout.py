"""The layout of the source: a folder is small enough to be read as a table of contents."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MOST_MODULES = 25
FOLDERS = sorted({path.parent for path in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(SOURCE)))
def test_a_folder_has_few_modules(folder: Path) -> None:
    modules = sorted(path.stem for path in folder.glob("*.py"))
    assert len(modules) <= MOST_MODULES, f"make packages of {', '.join(modules)}"


MOST_LINES = 400
REASON_FOR_FILE = "# Over 400 lines: "
MOST_LINES_OF_A_FUNCTION = 60
REASON_FOR_FUNCTION = "# Over 60 lines: "
TRAINING_PROGRAMS = SOURCE / "traincrew" / "local" / "images" / "files"


def test_long_files_say_why_they_are_not_two() -> None:
    long = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if (text := path.read_text()).count("\n") > MOST_LINES
        and not any(line.startswith(REASON_FOR_FILE) for line in text.splitlines())
    }
    assert not long, f"split them, or write a line '{REASON_FOR_FILE}REASON'"


def test_long_functions_say_why_they_are_not_two() -> None:
    """Docstrings do not count; the reason is in the line above, or in one of its own lines.

    Programs that users train with are read from top to bottom.
    """
    long = []
    for path in SOURCE.rglob("*.py"):
        if TRAINING_PROGRAMS in path.parents:
            continue
        text = path.read_text()
        lines = text.splitlines()
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                documentation = function.body[0]
                size = lines_of(function)
                if size <= MOST_LINES_OF_A_FUNCTION:
                    continue
                if ast.get_docstring(function) is not None:
                    size -= lines_of(documentation)
                assert function.end_lineno is not None
                own = lines[function.lineno - 2 : function.end_lineno]
                if size > MOST_LINES_OF_A_FUNCTION and not any(
                    line.strip().startswith(REASON_FOR_FUNCTION) for line in own
                ):
                    long.append(f"{path.relative_to(SOURCE)}: {function.name}")
    assert not long, f"split them, or write a line '{REASON_FOR_FUNCTION}REASON'"


def lines_of(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1
