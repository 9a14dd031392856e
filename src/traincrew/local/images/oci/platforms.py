"""Operating systems and architectures of images, and which of them a machine runs."""

from __future__ import annotations

import re

from msgspec import Struct

__all__ = ["Platform", "platform_of", "platform_rank"]


class Platform(Struct, frozen=True):
    """An operating system and an architecture, in the words of Go: ``linux``, ``arm64``, ``v8``."""

    os: str
    architecture: str
    variant: str = ""

    def __str__(self) -> str:
        """Return it as ``linux/arm64/v8``."""
        return "/".join(part for part in (self.os, self.architecture, self.variant) if part)


_ARCHITECTURES = {
    "x86_64": ("amd64", ""),
    "amd64": ("amd64", ""),
    "aarch64": ("arm64", "v8"),
    "arm64": ("arm64", "v8"),
    "armv7l": ("arm", "v7"),
    "armv6l": ("arm", "v6"),
    "i686": ("386", ""),
    "i386": ("386", ""),
}


def platform_of(machine: str) -> Platform:
    """Return the platform of images that a machine runs.

    Args:
        machine: as ``uname -m`` prints it.
    """
    architecture, variant = _ARCHITECTURES.get(machine, (machine, ""))
    return Platform("linux", architecture, variant)


def platform_rank(offered: Platform | None, wanted: Platform) -> int | None:
    """Return how well a platform fits: the less the better; None if it does not.

    Args:
        offered: of an image; None if nothing says what it is for, so that its configuration has to.
        wanted: of this machine.
    """
    if offered is None or not (offered.os or offered.architecture):
        return 1000  # its configuration says what it is for
    if (offered.os, offered.architecture) != (wanted.os, wanted.architecture):
        return None
    if offered.variant in {"", wanted.variant}:
        return 0 if offered.variant else 1
    asked, has = _number(offered.variant), _number(wanted.variant)
    if wanted.architecture == "arm":
        # A processor runs the programs of its predecessors: the newest of them.
        return 1 + has - asked if asked <= has else None
    # amd64/v2 to v4 need instructions that not every processor has; the plainest is taken.
    return 1 + asked


def _number(variant: str) -> int:
    digits = re.fullmatch(r"v([0-9]{1,2})", variant)
    return int(digits[1]) if digits else 99
