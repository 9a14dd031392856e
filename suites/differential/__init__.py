"""The embedded API server beside a real one: the same requests, equal responses."""

import sys
from pathlib import Path

# Where pytest finds the modules of tests, too.
_TESTS = str(Path(__file__).parents[2] / "tests")
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
