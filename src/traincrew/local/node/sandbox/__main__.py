"""Entry point of the fork server: `python -I -S DIRECTORY serve FD [--together]`, and of others.

It is started by directory, so that neither the enclosing package nor site-packages is imported: a
fork server must stay small, because every container's shim is a fork of it.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
import sys


def _main() -> int:
    # Python put this directory on the path; its parent makes it importable as a package.
    here = os.path.dirname(os.path.realpath(__file__))
    sys.path[0] = os.path.dirname(here)
    from sandbox import server  # type: ignore[import-not-found, unused-ignore]

    del sys.path[0]
    return int(server.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(_main())
