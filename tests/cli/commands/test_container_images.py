"""`traincrew images` with container images: import, list, inspect, verify, prune, remove."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from local.images.oci.packing import Layer, directory, entry, in_use, left_in, stored
from local.images.oci.test_archives import archive, docker_files, layout_files
from traincrew.cli.commands.images import images_command
from traincrew.cli.images import pulling
from traincrew.local.images.oci.store import ContainerImages

BASE = Layer(directory("bin/"), entry("bin/sh", b"#!", mode=0o755))
TOP = Layer(entry("top", b"x" * 2000), entry("dev/null", b"", b"3"))
DOCKER = archive(docker_files((["me/train:7"], [BASE, TOP])))


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TRAINCREW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def images(machine: Path) -> ContainerImages:
    return ContainerImages(machine / "cache" / "container-images")


def run(*arguments: str, data: bytes | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(images_command, arguments, input=data)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def short(images: ContainerImages, name: str) -> str:
    found = images.find(name)
    assert found is not None
    return found.id[7:19]


def test_what_docker_saves_is_imported_from_a_file_and_a_pipe(
    machine: Path, images: ContainerImages
) -> None:
    (machine / "train.tar").write_bytes(DOCKER)
    code, output = run("import", "train.tar")
    image = short(images, "docker.io/me/train:7")
    assert output.splitlines() == [
        "me/train:7: unpacking layer 1 of 2",
        "me/train:7: unpacking layer 2 of 2",
        f"me/train:7: image {image} (2.0 kB) is ready",
        "me/train:7: left out: devices: of 1 entry, such as dev/null",
    ]
    assert code == 0
    for arguments in ((), ("-",)):
        code, output = run("import", *arguments, "--name", "mine", data=DOCKER)
        assert output.startswith(f"mine:latest, me/train:7: image {image}")
        assert code == 0


def test_images_are_listed_below_the_environments(images: ContainerImages) -> None:
    before = run("list")[1]
    assert "IMAGE  " not in before
    stored(images, BASE, TOP, names=("docker.io/me/train:7", "quay.io/x/y:1"))
    stored(images, BASE)
    after = run("list")[1]
    assert after.startswith(before.partition("\n\n")[0].partition("\nBuilt")[0].rstrip("\n"))
    rows = [line.split() for line in after[after.index("IMAGE  ") :].splitlines()]
    assert rows[0] == ["IMAGE", "ID", "SIZE", "STORED"]
    assert [row[0] for row in rows[1:4]] == ["<none>", "me/train:7", "quay.io/x/y:1"]
    assert rows[2][1:4] == [short(images, "docker.io/me/train:7"), "2.0", "kB"]


def test_an_image_is_inspected_by_name_and_id(images: ContainerImages) -> None:
    image = stored(images, BASE, TOP, names=("docker.io/me/train:7",))
    document = json.loads(run("inspect", "me/train:7")[1])
    assert document["id"] == image.id
    assert document["names"] == ["docker.io/me/train:7"]
    assert document["config"]["arguments"] == ["true"]
    assert document["leftOut"] == ["devices: of 1 entry, such as dev/null"]
    assert run("inspect", image.id[7:15])[1] == run("inspect", image.id)[1]
    code, output = run("inspect", "me/trian:7")
    assert code == 2
    assert 'there is no container image "me/trian:7"; there are: me/train:7' in output


def test_a_name_is_removed_and_the_image_with_the_last(images: ContainerImages) -> None:
    stored(images, BASE, TOP, names=("docker.io/me/train:7", "docker.io/me/train:8"))
    assert run("remove", "me/train:8") == (
        0, "me/train:8: removed the name; the image is still me/train:7\n",
    )  # fmt: skip
    code, output = run("remove", "me/train:7")
    assert (code, output.partition(" image ")[0]) == (0, "me/train:7: removed")
    assert images.images() == []
    code, output = run("remove", "me/train:7")
    assert code == 2
    assert 'no container image "me/train:7"; none is stored' in output


def test_an_image_that_a_container_uses_is_not_removed(images: ContainerImages) -> None:
    image = stored(images, BASE, names=("docker.io/me/train:7",))
    with in_use(images, image):
        code, output = run("remove", image.id[7:])
    assert code == 1
    assert "me/train:7 is in use by a container: delete its pods first" in output
    assert run("remove", image.id[7:])[0] == 0


def test_prune_removes_what_has_no_name(images: ContainerImages) -> None:
    assert run("prune") == (0, "nothing to remove\n")
    stored(images, BASE, names=("docker.io/me/train:7",))
    without = stored(images, BASE, TOP)
    code, output = run("prune")
    assert code == 0
    assert output == f"removed image {without.id[7:19]} (2.0 kB), which has no name\n"
    assert len(images.images()) == 1
    assert run("prune") == (0, "nothing to remove\n")


def test_verify_and_repair(images: ContainerImages, monkeypatch: pytest.MonkeyPatch) -> None:
    good = stored(images, BASE, names=("docker.io/me/train:7",))
    bad = stored(images, TOP, names=("docker.io/me/other:1",))
    assert run("verify", "me/train:7") == (0, "me/train:7: unchanged since it was unpacked\n")
    (bad.layers[0] / "top").write_bytes(b"y" * 2000)
    code, output = run("verify")
    assert code == 1
    assert "me/train:7: unchanged since it was unpacked" in output
    assert f"me/other:1: damaged ({bad.id})" in output
    assert "top  (content)" in output
    assert "`traincrew images verify --repair` pulls them anew" in output

    async def pull(name: str, store: ContainerImages, *, either: bool) -> None:
        click.echo(f"{name} is pulled, {either}")

    monkeypatch.setattr(pulling, "pull_container_image", pull)
    code, output = run("verify", "--repair", "me/other:1")
    assert code == 0
    assert "docker.io/me/other:1 is pulled, False" in output
    assert images.find("docker.io/me/other:1") is None
    assert images.find("docker.io/me/train:7") == good


@pytest.mark.parametrize(
    ("arguments", "data", "code", "message"),
    [
        (["import"], b"", 2, "standard input: it is empty"),
        (["import"], b"\0" * 1024, 2, "standard input: it is no image: it has neither index.json"),
        (["import"], BASE.archive, 2, "`docker export`"),
        (["import", "missing.tar"], None, 2, "missing.tar: No such file or directory"),
        (["import", "--name", "UPPER/x"], DOCKER, 2, '"UPPER" is not'),
        (["import"], DOCKER[:3000], 2, "the archive is cut"),
        (["inspect", "sha256:0"], None, 2, "none is stored"),
        (["verify", "me/none:1"], None, 2, 'there is no environment "me/none:1"'),
    ],
)
def test_mistakes(arguments: list[str], data: bytes | None, code: int, message: str) -> None:
    found, output = run(*arguments, data=data)
    assert (found, message in output) == (code, True), output
    assert "Traceback" not in output


def test_a_layout_in_a_directory(machine: Path) -> None:
    for name, content in layout_files(({}, [BASE])).items():
        (machine / "layout" / name).parent.mkdir(parents=True, exist_ok=True)
        (machine / "layout" / name).write_bytes(content)
    code, output = run("import", "layout", "--name", "me/train:7")
    assert code == 0
    assert output.splitlines()[-1].startswith("me/train:7: image ")


def test_an_archive_that_was_imported_is_imported_again(
    machine: Path, images: ContainerImages
) -> None:
    (machine / "train.tar").write_bytes(DOCKER)
    run("import", "train.tar")
    image = images.find("docker.io/me/train:7")
    assert image is not None
    (image.layers[1] / "top").unlink()
    code, output = run("verify", "--repair", "me/train:7")
    assert code == 0
    assert "me/train:7: removed what is damaged; import the image again" in output
    assert run("import", "train.tar")[0] == 0
    assert run("verify", "me/train:7")[0] == 0


def test_an_interrupted_import_ends_and_leaves_nothing(images: ContainerImages) -> None:
    """Also if whoever writes the archive goes on, or does nothing."""
    program = [sys.executable, "-m", "traincrew.cli", "images", "import", "-"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(DOCKER[:2000])
        process.stdin.flush()
        partial = images.directory / "partial"
        deadline = time.monotonic() + 30
        while not list(partial.glob("import-*/0")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert left_in(images) == []
