"""Pairs of ssh keys, for the Secrets of clusters that are connected by ssh.

The keys of a pair exist in this process while the Secret is created, and afterwards only in the
Secret, which the operator does not read.
"""

from __future__ import annotations

import base64
from typing import Any

PRIVATE = ("id_ed25519", "id_rsa")
"""Names of the private key. Images that know only ``id_rsa`` find it as well: ssh recognizes the
type of a key by its content."""
AUTHORIZED = "authorized_keys"


def with_key_pair(secret: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret with a new pair of ed25519 keys in OpenSSH's format, without passphrase.

    The comment of the public key is the Secret's namespace and name.
    """
    # Imported here: only this kind of cluster needs it, and it takes longer than all the rest.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    metadata = secret["metadata"]
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    comment = f" {metadata['namespace']}/{metadata['name']}\n".encode()
    files = {AUTHORIZED: public + comment}
    for name in PRIVATE:
        files |= {name: private, f"{name}.pub": public + comment}
    return {**secret, "data": {name: base64.b64encode(files[name]).decode() for name in files}}
