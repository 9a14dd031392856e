"""Kubeconfig documents and files for clients."""

from __future__ import annotations

import json
import os
import tempfile
from base64 import b64encode
from pathlib import Path
from typing import Any

__all__ = ["kubeconfig", "write_kubeconfig"]


def kubeconfig(
    server: str,
    *,
    token: str = "",
    client: tuple[str, str] | None = None,
    authority: str = "",
    name: str = "traincrew",
    namespace: str = "default",
) -> dict[str, Any]:
    """Return a kubeconfig document.

    Args:
        server: URL of the API server.
        token: bearer token.
        client: certificate and key of a client, instead of a token (PEM).
        authority: certificate of the CA that signed the server's (PEM); empty without TLS.
        name: name of the context, the cluster and the user.
        namespace: default namespace of clients.
    """
    cluster = {"server": server}
    if authority:
        cluster["certificate-authority-data"] = _packed(authority)
    user = {"token": token}
    if client is not None:
        certificate, key = client
        user = {
            "client-certificate-data": _packed(certificate),
            "client-key-data": _packed(key),
        }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}
        ],
        "current-context": name,
    }


def _packed(text: str) -> str:
    return b64encode(text.encode()).decode()


def write_kubeconfig(path: Path, document: dict[str, Any]) -> None:
    """Write a kubeconfig (as JSON, which is valid YAML) that only its owner can read.

    The file is replaced atomically: it is written to a temporary file and moved into place.

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
