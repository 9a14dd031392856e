"""The layout of the source: a folder is small enough to be read as a table of contents."""

from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
MOST_MODULES = 25
FOLDERS = sorted({path.parent for path in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(SOURCE)))
def test_a_folder_has_few_modules(folder: Path) -> None:
    modules = sorted(path.stem for path in folder.glob("*.py"))
    assert len(modules) <= MOST_MODULES, f"make packages of {', '.join(modules)}"
