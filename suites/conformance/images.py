"""What the images of upstream's tests are here.

Nearly all of them are agnhost, one program with many talents, which is built like the tests. The
rest are a shell and a few tools: those of this machine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_E2E = "registry.k8s.io/e2e-test-images"
# The scripts of the tests are written for busybox's shell, which knows more than Debian's, and
# hands on variables whose names no shell knows (`data-1`), as Debian's busybox does not: bash does
# both. The other programs are wanted as busybox has them; agnhost has a better `nc`.
_SHELL = "bash"
_BUSYBOX = ("nc", "nslookup", "wget")
_NETCAT = Path(__file__).with_name("netcat.py")


def missing() -> list[str]:
    """Programs this machine lacks."""
    return [name for name in (_SHELL, "busybox", "openssl") if shutil.which(name) is None]


def catalog(agnhost: Path, directory: Path) -> str:
    """A catalog for `traincrew up --images`; YAML, as JSON is.

    Args:
        agnhost: The program.
        directory: For files of the images that are made here.
    """
    certificate, key = _certificate(directory)
    tools = {f"/usr/bin/{name}": shutil.which("busybox") for name in _BUSYBOX}
    tools |= {"/usr/bin/sh": shutil.which(_SHELL), "/agnhost": str(agnhost)}
    environments: list[dict[str, Any]] = [
        {
            "name": "agnhost",
            "images": [f"{_E2E}/agnhost"],
            "files": tools
            | {
                "/agnhost-2": str(agnhost),
                "/usr/bin/nc": str(netcat(directory)),
                "/localhost.crt": str(certificate),
                "/localhost.key": str(key),
            },
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


def netcat(directory: Path) -> Path:
    """The program `nc`, written into a directory."""
    program = directory / "nc"
    program.write_text(f"#!{sys.executable} -IS\n{_NETCAT.read_text()}")
    program.chmod(0o755)
    return program


def _certificate(directory: Path) -> tuple[Path, Path]:
    """What agnhost's servers show to clients of TLS."""
    certificate, key = directory / "localhost.crt", directory / "localhost.key"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files],
        check=True,
        capture_output=True,
    )
    return certificate, key
