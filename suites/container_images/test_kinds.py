"""The four kinds train from the project's own container images: as root, and as nobody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from suites.nobody import NOBODY, usable_python

from hack import images

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"
MINUTES = 5 * 60.0
JOBS = {
    "chainer/chainerjob-mn.yaml": ("helper", "chainermn"),
    "elastic/elasticjob.yaml": ("torch",),
    "mxnet/mxjob-dist.yaml": ("mxnet",),
    "openmpi/one-shot-non-root.yaml": ("openmpi-chainermn",),
    "openmpi/without-ssh.yaml": ("openmpi-chainermn", "helper", "chainermn"),
}
"""Examples, and the images that they need."""


class User:
    """A user with a cache of images of its own.

    Args:
        home: Its home directory.
        nobody: Whether it is nobody, who may give files to no other user.
    """

    def __init__(self, home: Path, *, nobody: bool) -> None:
        self.home = home
        python = usable_python() if nobody else sys.executable
        if python is None:
            pytest.skip("no interpreter of this version that another user may run")
        self._command = (python, "-m", "traincrew.cli")
        self._user: dict[str, Any] = {}
        if nobody:
            self._user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(home, NOBODY, NOBODY)
        self._environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{PROJECT / 'src'}:{sysconfig.get_path('purelib')}",
        }
        self._imported: set[str] = set()

    def traincrew(self, *words: str, stdin: Path | None = None) -> str:
        """Run a command that has to succeed; return its output."""
        with (stdin or Path(os.devnull)).open("rb") as file:
            done = subprocess.run(
                [*self._command, *words],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.home,
                env=self._environment,
                timeout=MINUTES,
                text=True,
                check=False,
                **self._user,
            )
        assert done.returncode == 0, done.stdout[-6000:]
        return str(done.stdout)

    def has(self, name: str) -> None:
        """Import an image, as `docker save` would hand it over."""
        if name not in self._imported:
            self.traincrew("images", "import", "-", stdin=images.build(name))
            self._imported.add(name)


@pytest.fixture(scope="module", params=["root", "nobody"])
def user(request: pytest.FixtureRequest) -> Iterator[User]:
    lacking = images.missing()
    if os.geteuid() != 0:
        lacking.append("root, who may become nobody")
    if lacking:
        text = "images cannot be built here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    # Below /tmp: nobody may not search the directories of pytest.
    home = Path(f"/tmp/traincrew-kinds-{request.param}-{os.getpid()}")
    home.mkdir()
    try:
        yield User(home, nobody=request.param == "nobody")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize("example", JOBS)
def test_a_job_trains_from_images(user: User, example: str) -> None:
    for name in JOBS[example]:
        user.has(name)
    documents = list(yaml.safe_load_all((PROJECT / "examples" / example).read_text()))
    # What gives users of the example time to scale it.
    text = yaml.safe_dump_all(documents).replace("--pause=1", "--pause=0")
    manifest = user.home / "job.yaml"
    manifest.write_text(text)
    manifest.chmod(0o644)
    # An environment would not do.
    output = user.traincrew("run", "--image-source", "image", "-f", str(manifest))
    assert ": Succeeded after " in output
    assert "validation accuracy" in output or "accuracy" in output
