"""Kubeconfig documents and files that let clients in."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["kubeconfig", "write_kubeconfig"]


def kubeconfig(
    server: str, *, name: str = "traincrew", namespace: str = "default"
) -> dict[str, Any]:
    """A kubeconfig document for a server whose address is the credential.

    Args:
        server: URL with the secret as its path.
        name: of the context, the cluster and the user.
        namespace: clients use when they name none.
    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
        ],
        "current-context": name,
    }


def write_kubeconfig(path: Path, document: dict[str, Any]) -> None:
    """Write a kubeconfig (as JSON, which is YAML) that only its owner can read.

    The file is complete at any moment: it is written beside and moved into place.

    Raises:
        OSError: the directory is missing or cannot be written.
    """
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:  # mkstemp made it 0600
            json.dump(document, file, indent=2)
            file.write("\n")
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
