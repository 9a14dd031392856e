"""The programs of the guide on testing, each with its language's own client from its registry.

What a program needs beside the guide's own files is in `projects`, with pinned releases.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hack.cluster import binaries, preflight
from suites.conftest import REQUIRE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "testing.md"
PROJECTS = Path(__file__).with_name("projects")
TRAINCREW = Path(sys.executable).with_name("traincrew")
_FILE = re.compile(r"^```\w+\n(?:#|//) (\S+\.\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files() -> dict[str, str]:
    """Return the files of the guide: path -> text."""
    return dict(_FILE.findall(GUIDE.read_text()))


def project(directory: Path, name: str, *names: str) -> Path:
    """Write a project: its folder of `projects`, if it has one, and files of the guide."""
    if (PROJECTS / name).is_dir():
        shutil.copytree(PROJECTS / name, directory, dirs_exist_ok=True)
    for each in names:
        path = directory / each
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files()[each])
    return directory


def needs(program: str) -> None:
    """Skip the test, or fail it where suites may not be skipped, without a program."""
    if shutil.which(program) is None:
        text = f"{program} is not on PATH"
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


def does(directory: Path, *command: object, **variables: object) -> str:
    """Run a command; return its output, both streams."""
    result = subprocess.run(
        list(map(str, command)),
        cwd=directory,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-10_000:]
    return result.stdout


@contextlib.contextmanager
def apiserver(directory: Path) -> Iterator[Path]:
    """Run `traincrew apiserver` as the guide does; yield its kubeconfig."""
    target = directory / "kubeconfig"
    serving = subprocess.Popen(
        [TRAINCREW, "apiserver", "--kubeconfig", target], stdout=subprocess.PIPE, text=True
    )
    assert serving.stdout is not None
    try:
        assert serving.stdout.readline() == f"export KUBECONFIG={target}\n"
        yield target
    finally:
        serving.terminate()
        assert serving.wait(60) == 0
        serving.stdout.close()


def test_every_program_of_the_guide_is_here() -> None:
    text = Path(__file__).read_text()
    assert len(files()) == 7
    assert all(f'"{name}"' in text for name in files())


def test_go(tmp_path: Path) -> None:
    if text := preflight.missing_go():
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    project(tmp_path, "go", "config_map_test.go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(binaries.MODULES / "controller-runtime" / name, tmp_path)
    assets = does(tmp_path, TRAINCREW, "envtest", tmp_path / "assets").strip()
    assert assets == f"export KUBEBUILDER_ASSETS={tmp_path / 'assets'}"
    # The flags of the programs that are built: what those have compiled is not compiled again.
    words = ("-mod=mod", "-buildvcs=false", "-ldflags=-s -w", "-v", "-count=1", "./...")
    said = does(
        tmp_path, "go", "test", *words, CGO_ENABLED=0, KUBEBUILDER_ASSETS=tmp_path / "assets"
    )
    assert "--- PASS: TestConfigMap" in said


def test_python(tmp_path: Path) -> None:
    project(tmp_path, "python", "test_widgets.py", "widgets.py", "widget.yaml")
    packages = tmp_path / "packages"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    locked = ("--no-deps", "--require-hashes", "-r", "requirements.txt", "--target", packages)
    does(tmp_path, *pip, *locked)
    pytest_command = (sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio")
    said = does(tmp_path, *pytest_command, "test_widgets.py", PYTHONPATH=packages)
    assert "2 passed" in said


def test_java(tmp_path: Path) -> None:
    needs("mvn")
    project(tmp_path, "java", "src/test/java/guide/ConfigMapTest.java")
    place = tmp_path / "kubeapitest"
    does(tmp_path, TRAINCREW, "envtest", place / "k8s" / "1.36.3-linux-amd64")
    said = does(tmp_path, "mvn", "-B", "test", KUBE_API_TEST_DIR=place)
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in said


def test_javascript(tmp_path: Path) -> None:
    needs("npm")
    project(tmp_path, "javascript", "config_map.test.mjs")
    does(tmp_path, "npm", "ci", "--silent", "--ignore-scripts")
    with apiserver(tmp_path) as kubeconfig:
        said = does(tmp_path, "node", "--test", KUBECONFIG=kubeconfig)
    assert "# pass 1" in said


def test_rust(tmp_path: Path) -> None:
    needs("cargo")
    project(tmp_path, "rust", "tests/config_map.rs")
    # The lock file has no place that crates are from: cargo says which one it uses here.
    does(tmp_path, "cargo", "generate-lockfile")
    lock = tmp_path / "Cargo.lock"
    source = re.search(r'^source = "(.*)"$', lock.read_text(), re.MULTILINE)
    assert source is not None
    lock.write_text((tmp_path / "Cargo.lock.in").read_text().replace("REGISTRY", source[1]))
    # What is compiled is kept: it takes minutes.
    target = binaries.cache_directory() / "guide-rust"
    does(tmp_path, "cargo", "test", "--locked", "--no-run", CARGO_TARGET_DIR=target)
    with apiserver(tmp_path) as kubeconfig:
        command = ("cargo", "test", "--locked", "--test", "config_map")
        said = does(tmp_path, *command, CARGO_TARGET_DIR=target, KUBECONFIG=kubeconfig)
    assert "test is_stored ... ok" in said
