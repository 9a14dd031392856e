"""`traincrew images pull` with a registry in the test process."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from local.images.oci.packing import Layer, entry, header
from local.images.oci.registry.support import Registry, login, serving_in_thread
from traincrew.cli.commands.images import images_command

LAYERS = [Layer(entry(f"file{number}", os.urandom(300_000))) for number in range(3)]


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "REGISTRY_AUTH_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINCREW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    return tmp_path


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()
    with serving_in_thread(registry):
        yield registry


def pull(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(images_command, ["pull", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_an_image_without_an_environment_is_pulled(registry: Registry) -> None:
    found = registry.add_packed("7", *LAYERS)
    name = f"{registry.host}/me/train:7"
    code, output, errors = pull(name)
    assert (code, output) == (0, f"{name}: image {found} (900 kB) is ready\n")
    lines = errors.splitlines()
    size = sum(len(layer.blob) for layer in LAYERS)
    assert lines[0] == f"{name}: 3 layers, {size / 1000:.0f} kB"
    assert lines[-1].endswith("(300 kB), 3 of 3")
    assert pull(name) == (0, f"{name}: image {found} (900 kB) is up to date\n", "")


def test_what_is_left_out_is_told(registry: Registry) -> None:
    registry.add_packed("7", Layer(entry("a", b"a"), header(b"tape", b"3", fields={329: b"1"})))
    code, output, errors = pull(f"{registry.host}/me/train:7")
    assert code == 0
    assert "is ready" in output
    assert "train:7: left out: " in errors


def test_a_registry_is_asked_in_spite_of_an_environment(registry: Registry, machine: Path) -> None:
    catalog = machine / "catalog.yaml"
    name = f"{registry.host}/me/train:7"
    catalog.write_text(f"environments: [{{name: a, images: ['{name}'], python: current}}]")
    registry.add_packed("7", *LAYERS)
    assert pull("--images", str(catalog), name)[1].startswith(f"{name}: environment 'a' is there")
    assert registry.log == []
    assert "is ready" in pull("--images", str(catalog), "--from", "registry", name)[1]
    code, _, errors = pull("--from", "environment", f"{registry.host}/me/other:7")
    assert code == 1
    assert "no environment is defined for it" in errors


def test_a_missing_image_says_what_else_there_is(registry: Registry) -> None:
    code, output, errors = pull(f"{registry.host}/me/train:7")
    assert (code, output) == (1, "")
    assert "There is no such image or tag" in errors
    assert f"traincrew images map {registry.host}/me/train:7 --python 3.11" in errors
    errors = pull("--from", "registry", f"{registry.host}/me/train:7")[2]
    assert "images map" not in errors


def test_the_credentials_of_docker_are_used(registry: Registry, machine: Path) -> None:
    registry.add_packed("7", *LAYERS)
    registry.scheme, registry.users = "basic", {"me": "word"}
    code, _, errors = pull(f"{registry.host}/me/train:7")
    assert code == 1
    assert f"{machine}/docker/config.json (DOCKER_CONFIG): does not exist" in errors
    (machine / "docker").mkdir()
    (machine / "docker/config.json").write_text(
        json.dumps({"auths": {registry.host: login("me", "word")}})
    )
    assert pull(f"{registry.host}/me/train:7")[0] == 0


def test_mistakes_in_the_settings_are_told(registry: Registry, machine: Path) -> None:
    (machine / "config/traincrew").mkdir(parents=True)
    (machine / "config/traincrew/registries.yaml").write_text("registries: {a.b: {mirror: []}}")
    code, _, errors = pull(f"{registry.host}/me/train:7")
    assert code == 2
    assert (
        'registries[a.b].mirror: is not a setting of a registry; did you mean "mirrors"' in errors
    )


def test_bars_are_drawn_on_a_terminal(registry: Registry) -> None:
    registry.add_packed("7", *LAYERS)
    reading, writing = pty.openpty()
    name = f"{registry.host}/me/train:7"
    program = [sys.executable, "-m", "traincrew.cli", "images", "pull", name]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "NO_COLOR": "1"}
    process = subprocess.Popen(program, stdout=writing, stderr=writing, env=environment)
    os.close(writing)
    output = b""
    while True:
        try:
            output += os.read(reading, 1 << 16)
        except OSError:
            break
    os.close(reading)
    assert process.wait(30) == 0
    text = output.decode()
    assert re.search(rf"[█░#-]{{20}} +\d+%  {re.escape(name)}  ", text)
    assert text.splitlines()[-1].endswith("is ready")
