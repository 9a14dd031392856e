"""The seed of a run: another one each time, as long as nobody chooses it."""

from __future__ import annotations

import os
import secrets

VARIABLE = "TRAINCREW_FUZZ_SEED"


def seed() -> int:
    """Return the seed that the environment chooses, or a new one."""
    return int(os.environ.get(VARIABLE) or secrets.randbelow(10**9))
