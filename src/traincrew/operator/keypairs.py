"""Pairs of ssh keys, for the Secrets of clusters that are connected by ssh.

The keys of a pair exist in this process while the Secret is created, or while they are rotated, and
otherwise only in the Secret.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from traincrew.plan.shared.model import KEY_GENERATION

if TYPE_CHECKING:
    from collections.abc import Mapping

PRIVATE = ("id_ed25519", "id_rsa")
"""Names of the private key. Images that know only ``id_rsa`` find it as well: ssh recognizes the
type of a key by its content."""
PREVIOUS = "id_previous"
"""The private key of the pair before, which pods offer as well while others may not know the new
one."""
AUTHORIZED = "authorized_keys"
SSH_AUTH = "kubernetes.io/ssh-auth"
"""Type of a Secret whose ``ssh-privatekey`` the API server requires."""


def with_key_pair(secret: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret with a new pair of keys, without passphrase; its type decides which.

    A Secret of Kubernetes' type for ssh gets what mpi-operator puts there, a key on the curve P-521
    in PEM. Others get ed25519 keys in OpenSSH's format, and the comment of the public key is the
    Secret's namespace and name.
    """
    if secret.get("type") == SSH_AUTH:
        return {**secret, "data": _encoded(_p521())}
    # Imported here: only this kind of cluster needs it, and it takes longer than all the rest.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    line = public + _comment(secret)
    files = {AUTHORIZED: line}
    for name in PRIVATE:
        files |= {name: private, f"{name}.pub": line}
    return {**secret, "data": _encoded(files)}


def _p521() -> dict[str, bytes]:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}


def is_due(found: Mapping[str, Any], secret: Mapping[str, Any], *, retires: bool) -> bool:
    """Return whether a Secret that exists has to be changed, as far as its metadata show.

    A rotation in progress is not started again.

    Args:
        found: The Secret that exists.
        secret: The one that a plan wants, with the generation of its pair.
        retires: Whether earlier pairs are to be removed, rather than replaced.
    """
    now, wanted = _generation(found), _generation(secret)
    return now <= wanted if retires else now < wanted


def changes(
    stored: Mapping[str, Any], secret: dict[str, Any], *, retires: bool
) -> dict[tuple[str, ...], Any]:
    """Return the fields of a Secret to replace, by path; see `is_due`. Empty if nothing changes."""
    data = without_previous(stored) if retires else rotated(stored, secret)
    if data == stored.get("data"):
        return {}
    before = stored["metadata"].get("annotations") or {}
    annotations = {**before, KEY_GENERATION: secret["metadata"]["annotations"][KEY_GENERATION]}
    return {("data",): data, ("metadata", "annotations"): annotations}


def _generation(secret: Mapping[str, Any]) -> int:
    """Return which pair a Secret has, by its annotation; 1 if that is missing or no number."""
    text = (secret["metadata"].get("annotations") or {}).get(KEY_GENERATION, "")
    return int(text) if text.isascii() and text.isdecimal() else 1


def rotated(stored: Mapping[str, Any], secret: dict[str, Any]) -> dict[str, str]:
    """Return the ``data`` of a stored Secret with the new pair of `secret` added to its own.

    Pods that have it use both pairs and accept both. What others have added stays.
    """
    before, new = _decoded(stored), _decoded(with_key_pair(secret))
    files = {**before, **new}
    files[AUTHORIZED] = new[AUTHORIZED] + before.get(AUTHORIZED, b"")
    old = next((before[name] for name in PRIVATE if before.get(name)), None)
    if old is not None:
        files[PREVIOUS] = old
    return _encoded(files)


def without_previous(stored: Mapping[str, Any]) -> dict[str, str]:
    """Return the ``data`` of a stored Secret with its newest pair alone.

    Public keys that others have added stay: they have another comment.
    """
    files = _decoded(stored)
    files.pop(PREVIOUS, None)
    newest = next((files[f"{name}.pub"] for name in PRIVATE if f"{name}.pub" in files), b"").strip()
    ours = _comment(stored).rstrip()
    lines = files.get(AUTHORIZED, b"").splitlines()
    kept = [line for line in lines if line.strip() == newest or not line.rstrip().endswith(ours)]
    files[AUTHORIZED] = b"".join(line + b"\n" for line in kept)
    return _encoded(files)


def _comment(secret: Mapping[str, Any]) -> bytes:
    metadata = secret["metadata"]
    return f" {metadata['namespace']}/{metadata['name']}\n".encode()


def _encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def _decoded(secret: Mapping[str, Any]) -> dict[str, bytes]:
    data: Mapping[str, str] = secret.get("data") or {}
    return {name: base64.b64decode(text) for name, text in data.items()}
