"""The document of ``/version``."""

from __future__ import annotations

import platform

__all__ = ["KUBERNETES", "document"]

KUBERNETES = (1, 36, 3)
"""The Kubernetes release whose behaviour this server follows."""


def document() -> dict[str, str]:
    """Return the version document; the suffix shows that this is not upstream's server."""
    major, minor, patch = KUBERNETES
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "gitVersion": f"v{major}.{minor}.{patch}+traincrew",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{machine}",
    }
