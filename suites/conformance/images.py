"""Environments for the images of upstream's tests.

Nearly all of them are agnhost, one program with many functions, which is built like the tests, with
a shell and a few tools of this machine. `container_images` has those that are real images.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

REGISTRY = "registry.k8s.io/e2e-test-images"
# The tests' scripts are written for busybox's shell, which supports more than Debian's sh and
# exports variables whose names are not valid in a shell (`data-1`), unlike Debian's busybox. bash
# does both. The other programs have to behave as busybox's; for agnhost there is a better `nc`.
SHELL = "bash"
_BUSYBOX = ("nc", "nslookup", "wget")
_NETCAT = Path(__file__).with_name("netcat.py")


def missing() -> list[str]:
    """Return the packages of programs that this machine lacks."""
    packages = {SHELL: SHELL, "busybox": "busybox", "openssl": "openssl", "dig": "bind9-dnsutils"}
    return [package for name, package in packages.items() if shutil.which(name) is None]


def catalog(agnhost: Path, directory: Path) -> str:
    """Return a catalog for `traincrew up --images`, as JSON (which is YAML).

    Args:
        agnhost: The program.
        directory: For the files of the images.
    """
    certificate, key = _certificate(directory)
    tools = {f"/usr/bin/{name}": shutil.which("busybox") for name in _BUSYBOX}
    tools |= {"/usr/bin/sh": shutil.which(SHELL), "/agnhost": str(agnhost)}
    environments: list[dict[str, Any]] = [
        {
            "name": "agnhost",
            "images": [f"{REGISTRY}/agnhost"],
            "files": tools
            | {
                "/agnhost-2": str(agnhost),
                "/usr/bin/nc": str(netcat(directory)),
                "/localhost.crt": str(certificate),
                "/localhost.key": str(key),
            },
            "command": ["/agnhost"],
            "args": ["pause"],
        },
        {
            "name": "pause",
            "images": ["registry.k8s.io/pause"],
            "files": tools,
            "command": ["/agnhost", "pause"],
        },
        # A shell, getent and dig: those of this machine.
        {
            "name": "dns-client",
            "images": [f"{REGISTRY}/glibc-dns-testing"],
            "files": tools,
        },
        # For tests that only need some web server.
        {
            "name": "web",
            "images": [f"{REGISTRY}/httpd", f"{REGISTRY}/nginx"],
            "files": tools,
            "command": ["/agnhost", "test-webserver"],
        },
    ]
    return json.dumps({"environments": environments}, indent=2)


def netcat(directory: Path) -> Path:
    """Write the program `nc` into a directory; return its path."""
    program = directory / "nc"
    program.write_text(f"#!{sys.executable} -IS\n{_NETCAT.read_text()}")
    program.chmod(0o755)
    return program


def _certificate(directory: Path) -> tuple[Path, Path]:
    """Create the TLS certificate and key of agnhost's servers."""
    certificate, key = directory / "localhost.crt", directory / "localhost.key"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, *files],
        check=True,
        capture_output=True,
    )
    return certificate, key
