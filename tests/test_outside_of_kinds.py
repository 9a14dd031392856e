"""Files that name a kind, or its predecessor, outside of its two folders are in its design note."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "traincrew"
KINDS = {
    "mxjob": re.compile(rb"mx.?job|mxnet", re.IGNORECASE),
    "mpicluster": re.compile(rb"mpi.?cluster|kube-openmpi", re.IGNORECASE),
}


def naming(kind: str) -> set[str]:
    """Return the files outside of the folders of the two kinds that name one."""
    # MXJob of training-operator is in folders of its own, mxjobv1.
    own = tuple(f"{folder}/{name}" for folder in ("api/kinds", "plan") for name in KINDS)
    paths = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*") if path.is_file()}
    return {
        name
        for name, path in paths.items()
        if "__pycache__" not in name
        and not name.startswith(own)
        and KINDS[kind].search(path.read_bytes())
    }


def listed(kind: str) -> set[str]:
    """Return the files and, with a slash at the end, directories in the table of the note."""
    page = (ROOT / "docs" / "design" / f"{kind}.md").read_text()
    section = page.partition("## Outside of the two folders\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {path for row in rows for path in re.findall("`(.+?)`", row)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_note_lists_the_files_that_name_a_kind(kind: str) -> None:
    found, known = naming(kind), listed(kind)
    directories = tuple(path for path in known if path.endswith("/"))
    new = sorted(name for name in found - known if not name.startswith(directories))
    assert new == [], f"list them in docs/design/{kind}.md, with the reason"
    gone = [path for path in known if not any(name.startswith(path) for name in found)]
    assert gone == [], f"docs/design/{kind}.md lists files that do not name it (any more)"
