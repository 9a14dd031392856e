"""The seed of a run: derived from the code, so that a commit meets the same requests everywhere."""

from __future__ import annotations

import os

import variation

VARIABLE = "TRAINCREW_FUZZ_SEED"


def seed() -> int:
    """Return the seed that the environment chooses, or that of the code."""
    return int(os.environ.get(VARIABLE) or variation.NUMBER)
