"""Pulls from Docker's registry: credentials, images of another builder, and `kill -9`."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from suites.container_images.registry import (
    BUILDAH,
    LOGIN,
    PASSWORD,
    PROGRAM,
    USER,
    Layer,
    Server,
    serving,
)

import variation
from traincrew.local.images.oci.store import ContainerImages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="needs a registry: apt-get install docker-registry"
)
ROUNDS = 30
"""Pulls that are killed."""


class User:
    """Pulls with files of their own.

    Attributes:
        home: Their home directory.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TRAINCREW_CACHE": str(home / "cache"),
            "LANG": "C.UTF-8",
        }

    def start(self, image: str) -> subprocess.Popen[str]:
        """Start a pull."""
        return subprocess.Popen(
            [sys.executable, "-m", "traincrew.cli", "images", "pull", "--from", "registry", image],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def pull(self, image: str) -> tuple[int, str]:
        """Pull; return the exit code, and what was printed."""
        process = self.start(image)
        output, errors = process.communicate(timeout=120)
        return process.returncode, output + errors

    def log_in(self, host: str, login: str) -> None:
        """Write what `docker login` writes."""
        path = self.home / ".docker/config.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"auths": {host: {"auth": login}}}))

    def files(self, image: str) -> dict[str, bytes]:
        """Return the files of a stored image."""
        stored = ContainerImages(self.home / "cache/container-images").find(image)
        assert stored is not None
        return {
            str(path.relative_to(layer)): path.read_bytes()
            for layer in stored.layers
            for path in layer.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def user(tmp_path: Path) -> User:
    home = tmp_path / "home"
    home.mkdir()
    return User(home)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path, closed=True) as server:
        yield server


def test_right_wrong_and_no_credentials(closed: Server, user: User) -> None:
    image = f"{closed.host}/team/train:7"
    found = closed.push("team/train", "7", [Layer({"one": b"1"})])
    code, output = user.pull(image)
    assert code == 1
    assert "It wants credentials, and none were found" in output
    assert f"{user.home}/.docker/config.json: does not exist" in output

    user.log_in("ghcr.io", LOGIN)
    assert f"has none for {closed.host}, only for ghcr.io" in user.pull(image)[1]

    user.log_in(closed.host, "cmVhZGVyOndyb25n")
    code, output = user.pull(image)
    assert code == 1
    assert f"did not accept the credentials of {user.home}/.docker/config.json: auths" in output
    assert "cmVhZGVyOndyb25n" not in output

    user.log_in(closed.host, LOGIN)
    code, output = user.pull(image)
    assert code == 0, output
    assert f"{image}: image {found} (1 B) is ready" in output
    assert "is up to date" in user.pull(image)[1]
    assert user.files(image) == {"one": b"1"}


@pytest.mark.skipif(
    BUILDAH is None or os.geteuid() != 0, reason="needs root and apt-get install buildah"
)
@pytest.mark.parametrize(
    "push", ["oci gzip", "oci zstd", "oci gzip index", "v2s2 gzip", "v2s2 gzip index"]
)
def test_an_image_that_buildah_has_pushed(
    closed: Server, user: User, tmp_path: Path, push: str
) -> None:
    form, compression, *index = push.split()
    (tmp_path / "program").write_text("#!/bin/sh\n")
    storage = ["--root", f"{tmp_path}/buildah", "--runroot", f"{tmp_path}/run"]

    def buildah(*words: str) -> str:
        command = [str(BUILDAH), *storage, "--storage-driver", "vfs", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout.strip()

    container = buildah("from", "scratch")
    buildah("add", container, str(tmp_path / "program"), "/bin/program")
    buildah("config", "--entrypoint", '["/bin/program"]', "--user", "7", container)
    buildah("commit", "--format", form.replace("v2s2", "docker"), container, "made")
    image = f"{closed.host}/team/made:1"
    options = ["--tls-verify=false", "--creds", f"{USER}:{PASSWORD}", "--format"]
    if index:
        buildah("manifest", "create", "several")
        buildah("manifest", "add", "several", "made")
        buildah("manifest", "push", "--all", *options, form, "several", f"docker://{image}")
    else:
        buildah("push", "--compression-format", compression, *options, form, "made", image)
    user.log_in(closed.host, LOGIN)
    code, output = user.pull(image)
    assert code == 0, output
    assert user.files(image) == {"bin/program": b"#!/bin/sh\n"}
    stored = ContainerImages(user.home / "cache/container-images").find(image)
    assert stored is not None
    assert (stored.config.entrypoint, stored.config.user) == (("/bin/program",), "7")


def test_pulls_that_are_killed_go_on(tmp_path: Path, user: User) -> None:
    randomness = random.Random(variation.NUMBER)
    contents = {f"d/{number}": randomness.randbytes(8 << 20) for number in range(6)}
    layers = [Layer({name: data}) for name, data in contents.items()]
    with serving(tmp_path) as server:
        server.push("train", "7", layers)
        image = f"{server.host}/train:7"
        began = time.monotonic()
        assert user.pull(image)[0] == 0
        seconds = time.monotonic() - began
        finished = 0
        for _ in range(ROUNDS):
            _forget(user)
            finished += _killed_and_repeated(user, image, seconds * randomness.random())
            assert user.files(image) == contents
        # Most were killed before their end, or else nothing was tried.
        assert finished < ROUNDS / 2


def _killed_and_repeated(user: User, image: str, seconds: float) -> bool:
    """Kill a pull after some seconds and pull again; return whether the first one had ended."""
    process = user.start(image)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    process.communicate()
    code, output = user.pull(image)
    assert code == 0, output
    # What is left of the second one, its pins, goes with the next start.
    store = ContainerImages(user.home / "cache/container-images")
    assert list((store.directory / "partial").iterdir()) == []
    return process.returncode == 0


def _forget(user: User) -> None:
    store = ContainerImages(user.home / "cache/container-images")
    for image in store.images():
        store.remove(image)
    assert store.images() == []


def test_a_pull_that_is_interrupted_ends_at_once_and_goes_on(tmp_path: Path, user: User) -> None:
    contents = {f"d/{number}": random.Random(number).randbytes(8 << 20) for number in range(6)}
    with serving(tmp_path) as server:
        server.push("train", "7", [Layer({name: data}) for name, data in contents.items()])
        image = f"{server.host}/train:7"
        process = user.start(image)
        assert process.stderr is not None
        process.stderr.readline()  # it knows the layers
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, errors = process.communicate(timeout=30)
        assert time.monotonic() - began < 5
        assert process.returncode in {0, 130}
        assert "Traceback" not in errors
        assert user.pull(image)[0] == 0
        assert user.files(image) == contents


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a small file system")
@pytest.mark.parametrize(
    "room", [pytest.param(4, id="fetching"), pytest.param(280, id="unpacking")]
)
def test_a_full_disk_is_reported_and_loses_nothing(tmp_path: Path, user: User, room: int) -> None:
    """Images leave 256 MiB free, and more where other programs fill the disk meanwhile."""
    contents = {f"d/{number}": random.Random(number).randbytes(12 << 20) for number in range(4)}
    cache = user.home / "cache"
    cache.mkdir()
    options = "size=400m,mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(cache)], check=True)
    try:
        with serving(tmp_path) as server:
            server.push("train", "7", [Layer({name: data}) for name, data in contents.items()])
            server.push("small", "7", [Layer({"one": b"1"})])
            image, small = f"{server.host}/train:7", f"{server.host}/small:7"
            code, output = user.pull(small)
            assert code == 0, output
            (cache / "other").write_bytes(bytes((399 - room) << 20))
            code, output = user.pull(image)
            assert code == 1
            assert "No space left on device" in output
            assert "free some disk space" in output
            assert "Traceback" not in output
            assert user.files(small) == {"one": b"1"}
            (cache / "other").unlink()
            code, output = user.pull(image)
            assert code == 0, output
            assert user.files(image) == contents
    finally:
        subprocess.run(["umount", str(cache)], check=True)
