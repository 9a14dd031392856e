"""The number that chooses what differs from run to run: random seeds, samples, versions in turn.

It is derived from the code. A commit meets the same choices on every machine, so that what passed
here passes there; each change of the code meets new ones. ``TRAINCREW_SEED=N`` chooses by hand.

Of what takes long a run has one in `TURNS`, and all if ``TRAINCREW_EVERY_EXAMPLE`` is set, as
`suites/examples` does.
"""

import os
from hashlib import sha256
from pathlib import Path

VARIABLE = "TRAINCREW_SEED"
LIMIT = 10**9
EVERY = "TRAINCREW_EVERY_EXAMPLE"
TURNS = 3
_FOLDERS = ("src", "tests", "suites")


def number_of(root: Path) -> int:
    """Return a number below `LIMIT` that depends on all Python files of a checkout."""
    digest = sha256()
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:8]) % LIMIT


# Kept for the processes that pytest-xdist starts, even if a file changes meanwhile.
NUMBER = int(os.environ.get(VARIABLE) or number_of(Path(__file__).resolve().parent.parent))
os.environ[VARIABLE] = str(NUMBER)


def examples(number: int) -> int:
    """Return how many random examples a run has, of those that are enough for one commit alone."""
    return number if EVERY in os.environ else -(-number // TURNS)


def has_turn(place: int, turns: int = TURNS) -> bool:
    """Return whether a run has the case at this place of a list: one in so many."""
    return EVERY in os.environ or (place + NUMBER) % turns == 0
