"""Signatures of images, made and verified with minisign.

https://jedisct1.github.io/minisign/. An image and its bill of materials each have a signature in a
file beside them, which anybody with the public key can verify without this project.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from hack.images import materials
from hack.images.archive import Archive
from hack.images.errors import ImageError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY = "TRAINCREW_SIGNING_KEY"
UNSIGNED = (
    f"not signed: {KEY} names no key of minisign; how to make one is in"
    " docs/guides/project-images.md"
)


def path(file: Path) -> Path:
    """Return where the signature of a file is."""
    return file.with_name(f"{file.name}.minisig")


def key() -> Path | None:
    """Return the secret key that images are to be signed with, or nothing.

    Raises:
        ImageError: It is not there.
    """
    named = os.environ.get(KEY)
    if not named:
        return None
    if not Path(named).is_file():
        raise ImageError(f"{KEY}={named}: there is no such file; `minisign -G -s FILE` makes one")
    return Path(named)


def sign(archives: Sequence[Path], secret: Path) -> None:
    """Sign images and their bills of materials; minisign asks for the key's password once.

    Raises:
        Unavailable: minisign is not installed.
        ImageError: They cannot be signed.
    """
    _check_installed()
    files = [str(file) for each in archives for file in (each, materials.path(each))]
    # For people: the comment that is signed, too, has the time and the name of the file.
    comment = "signed by make images"
    command = ["minisign", "-S", "-s", str(secret), "-c", comment, "-m", *files]
    # Not captured: it asks for the password.
    if code := subprocess.run(command, stdout=2, check=False).returncode:
        raise ImageError(f"minisign failed with exit code {code}: nothing may be taken as signed")


def verify(archive: Path, public: Path) -> None:
    """Check that an image and its bill of materials are those that were signed.

    Raises:
        Unavailable: minisign is not installed.
        ImageError: They are not; the message says what is wrong.
    """
    _check_installed()
    for file in (archive, materials.path(archive)):
        for needed in (file, path(file)):
            if not needed.is_file():
                raise ImageError(f"{needed}: there is no such file")
        command = ["minisign", "-V", "-q", "-p", str(public), "-m", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise ImageError(f"{file}: not what was signed with this key: {said}")
    described = json.loads(materials.path(archive).read_text())["metadata"]["component"]
    if described["bom-ref"] != Archive(archive).identity:
        raise ImageError(f"{materials.path(archive)}: describes {described['bom-ref']}")


def _check_installed() -> None:
    if not shutil.which("minisign"):
        raise Unavailable("images cannot be signed or verified here: apt-get install minisign")
