"""What is installed from the Python package index has a hash, wherever this project installs it."""

import re
import tomllib
from pathlib import Path

import pytest
from hack.images import catalog
from packaging.requirements import Requirement

FILES = [
    *(catalog.REPOSITORY / "requirements").glob("*.txt"),
    *(catalog.REPOSITORY / "images").rglob("requirements*.txt"),
    *(catalog.REPOSITORY / "src/traincrew/local/images/hashes").glob("*.txt"),
]
PROJECT = tomllib.loads((catalog.REPOSITORY / "pyproject.toml").read_text())


def pins(name: str) -> dict[str, str]:
    """Return the version of each package in a file of requirements."""
    text = (catalog.REPOSITORY / name).read_text().replace("\\\n", " ")
    found = [line.split() for line in text.splitlines() if line[:1].isalnum()]
    return dict(words[0].split("==") for words in found)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(catalog.REPOSITORY)))
def test_every_requirement_has_a_version_and_hashes(file: Path) -> None:
    text = file.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]
    assert lines
    for line in lines:
        assert re.match(r"[A-Za-z0-9._-]+==\S+( ;.*?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*$", line)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("run", PROJECT["project"]["dependencies"]),
        ("dev", PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]),
        ("build", PROJECT["dependency-groups"]["build"] + PROJECT["build-system"]["requires"]),
    ],
)
def test_the_files_are_those_of_the_project(name: str, wanted: list[str]) -> None:
    """`make lock` was run after the last change of pyproject.toml."""
    found = pins(f"requirements/{name}.txt")
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(found[requirement.name]), requirement


def test_one_environment_can_have_all_of_them() -> None:
    run, dev = pins("requirements/run.txt"), pins("requirements/dev.txt")
    assert run.items() <= dev.items()
    build = pins("requirements/build.txt")
    assert {name: dev[name] for name in build if name in dev}.items() <= build.items()
    assert pins("images/operator/requirements.txt").items() <= run.items()


@pytest.mark.parametrize("image", catalog.IMAGES.values(), ids=list(catalog.IMAGES))
def test_images_install_nothing_without_a_hash(image: catalog.Image) -> None:
    text = (catalog.REPOSITORY / image.dockerfile).read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    for command in re.findall(r"\bpip\b[^&\n]*\binstall\b[^&\n]*", text):
        assert "--require-hashes" in command, command


def test_make_installs_nothing_without_a_hash() -> None:
    text = (catalog.REPOSITORY / "Makefile").read_text()
    installs = re.findall(r"^\t.*(?:\$\(INSTALL\)|pip install) (.*)", text, re.MULTILINE)
    assert installs
    for options in installs:
        assert "--require-hashes" in options or options == "--no-build-isolation -e ."
