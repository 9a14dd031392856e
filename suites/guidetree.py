"""A copy of the program with the files of a guide, for the tests that execute guides."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
_FILE = re.compile(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Tree:
    """A copy of the program, to which the files of a guide were added."""

    def __init__(self, directory: Path, guide: str) -> None:
        self.directory = directory
        self.sources = directory / "src"
        shutil.copytree(ROOT / "src", self.sources)
        self.files = []
        for name, text in _FILE.findall((ROOT / "docs" / "guides" / guide).read_text()):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            self.files.append(path)

    @property
    def folders(self) -> set[str]:
        """Return the folders of the guide's files."""
        return {str(path.relative_to(self.directory).parent) for path in self.files}

    @property
    def replaced(self) -> list[Path]:
        """Return the files of the guide that are in the program already."""
        names = [path.relative_to(self.directory) for path in self.files]
        return [name for name in names if (ROOT / name).exists()]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment in which the copy is imported."""
        scratch = self.directory / "scratch"
        scratch.mkdir(exist_ok=True)
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (self.sources, ROOT / "tests"))),
            "TMPDIR": str(scratch),
            "TRAINCREW_CACHE": str(self.directory / "cache"),
            "TRAINCREW_HOME": str(self.directory / "home"),
            "XDG_CONFIG_HOME": str(self.directory / "config"),
        }

    def python(self, *words: object) -> str:
        """Run Python and return its output."""
        return self.program(sys.executable, *words)

    def traincrew(self, *words: object) -> str:
        """Run the program and return its output."""
        return self.python("-m", "traincrew.cli", *words)

    def program(self, *words: object) -> str:
        result = subprocess.run(
            list(map(str, words)),
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    def check(self, *packages: str) -> None:
        """Run the project's checks on the files of the guide.

        Args:
            packages: What mypy checks, as modules.
        """
        modules = [path for path in self.files if path.suffix == ".py"]
        options = ("--no-cache", "--config", ROOT / "pyproject.toml")
        self.program(BIN / "ruff", "check", *options, *modules)
        self.program(BIN / "ruff", "format", "--check", *options, *modules)
        shutil.copy(ROOT / "pyproject.toml", self.directory)
        self.program(BIN / "lint-imports", "--no-cache")
        if (known := ROOT / ".mypy_cache").is_dir():  # what `make lint` knows of all other modules
            shutil.copytree(known, self.directory / "mypy")
        # mypy considers modules in PYTHONPATH a second copy.
        named = [word for package in packages for word in ("-p", package)]
        self.program("env", "-u", "PYTHONPATH", BIN / "mypy", "--cache-dir", "mypy", *named)
