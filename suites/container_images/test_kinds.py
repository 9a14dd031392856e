"""The four kinds train from the project's own container images: as root, and without root."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml
from suites.container_images.users import PROJECT, User, user_named

from hack import images

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"
JOBS = {
    "chainer/chainerjob-mn.yaml": ("helper", "chainermn"),
    "elastic/elasticjob.yaml": ("torch",),
    "mxnet/mxjob-dist.yaml": ("mxnet",),
    "openmpi/one-shot-non-root.yaml": ("openmpi-chainermn",),
    "openmpi/without-ssh.yaml": ("openmpi-chainermn", "helper", "chainermn"),
}
"""Examples, and the images that they need."""
SSH = {"openmpi/one-shot.yaml": ("openmpi-chainermn",)}
"""Their sshd runs as root, and becomes another user."""
IMAGES = JOBS | SSH
CASES = [
    *(("root", example) for example in IMAGES),
    *(("nobody", example) for example in JOBS),
    *(("mapped", example) for example in SSH),
]


@pytest.fixture(scope="module")
def user(request: pytest.FixtureRequest) -> Iterator[User]:
    lacking = images.missing()
    if os.geteuid() != 0:
        lacking.append("root, who may become nobody")
    if lacking:
        text = "images cannot be built here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    with user_named(request.param, "kinds") as user:
        yield user


@pytest.mark.parametrize(("user", "example"), CASES, indirect=["user"], scope="module")
def test_a_job_trains_from_images(user: User, example: str) -> None:
    for name in IMAGES[example]:
        user.has(images.build(name))
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
