"""Pin what is installed from the Python package index: versions, and hashes of all their files.

- ``requirements/run.txt``, ``dev.txt``: the program, and what it is developed with
- ``requirements/build.txt``: what its wheel is built with
- ``images/operator/requirements.txt``: the part of ``run.txt`` that the operator's image has
- ``src/traincrew/local/images/hashes``: the environments of the shipped catalog, which has the
  versions; the images of the same contents are built from these files, too

Versions that the files have already stay, unless they contradict ``pyproject.toml`` or the catalog.
The files contain no address of a package index.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
IMAGES = Path("src/traincrew/local/images")
OLDEST_PYTHON = "3.11"


def main() -> None:
    """Write all files."""
    for output, sources in (
        ("run", ("pyproject.toml",)),
        ("dev", ("pyproject.toml", "--group=dev")),
        # Both are installed into one environment.
        ("build", ("--group=build", "--constraint=requirements/dev.txt")),
    ):
        compiled(f"requirements/{output}.txt", sources, OLDEST_PYTHON)
    compiled(
        "images/operator/requirements.txt",
        ("images/operator/requirements.in", "--constraint=requirements/run.txt"),
        OLDEST_PYTHON,
    )
    catalog = yaml.safe_load((ROOT / IMAGES / "catalog.yaml").read_text())
    for entry in catalog["environments"]:
        # "NAME-build.txt" has the build requirements.
        for path in entry.get("hashes", ()):
            field = "buildRequirements" if path.endswith("-build.txt") else "requirements"
            oldest = min(entry["python"], key=lambda version: int(version.partition(".")[2]))
            pinned = "\n".join(entry[field])
            compiled(str(IMAGES / path), ("--no-deps", "--no-annotate", "-"), oldest, pinned)


def compiled(output: str, sources: tuple[str, ...], python: str, pinned: str = "") -> None:
    """Write the requirements file `output` for a Python and all newer ones, on all platforms."""
    (ROOT / output).parent.mkdir(exist_ok=True)
    # The resolver is the one of the environment this runs in.
    uv = str(Path(sys.executable).with_name("uv"))
    options = ("--universal", "--generate-hashes", "--no-emit-index-url", "--no-header", "--quiet")
    subprocess.run(
        [uv, "pip", "compile", *options, f"--python-version={python}", "-o", output, *sources],
        cwd=ROOT,
        input=pinned,
        text=True,
        check=True,
    )


if __name__ == "__main__":
    main()
