"""What the images of upstream's tests are here.

Nearly all of them are agnhost, one program with many talents, which is built like the tests. The
rest are a shell and a few tools: those of this machine.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_E2E = "registry.k8s.io/e2e-test-images"
# The scripts of the tests are written for busybox's shell, which knows more than Debian's: bash
# does, too. The other programs are wanted as busybox has them.
_SHELL = "bash"
_BUSYBOX = ("nc", "nslookup", "wget")


def missing() -> list[str]:
    """Programs this machine lacks."""
    return [name for name in (_SHELL, "busybox") if shutil.which(name) is None]


def catalog(agnhost: Path) -> str:
    """A catalog for `traincrew up --images`; YAML, as JSON is.

    Args:
        agnhost: The program.
    """
    tools = {f"/usr/bin/{name}": shutil.which("busybox") for name in _BUSYBOX}
    tools |= {"/usr/bin/sh": shutil.which(_SHELL), "/agnhost": str(agnhost)}
    environments: list[dict[str, Any]] = [
        {
            "name": "agnhost",
            "images": [f"{_E2E}/agnhost"],
            "files": tools | {"/agnhost-2": str(agnhost)},
            "command": ["/agnhost"],
            "args": ["pause"],
            "ownPorts": True,
        },
        {
            "name": "busybox",
            "images": [f"{_E2E}/busybox"],
            "files": tools,
            "args": ["sh"],
            "ownPorts": True,
        },
        {
            "name": "pause",
            "images": ["registry.k8s.io/pause"],
            "files": tools,
            "command": ["/agnhost", "pause"],
        },
        # Tests that only want some web server.
        {
            "name": "web",
            "images": [f"{_E2E}/httpd", f"{_E2E}/nginx"],
            "files": tools,
            "command": ["/agnhost", "test-webserver"],
            "ownPorts": True,
        },
    ]
    return json.dumps({"environments": environments}, indent=2)
