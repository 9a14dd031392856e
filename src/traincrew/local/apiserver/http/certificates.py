"""Users of client certificates: the common name is the user, each organization a group.

Rules: ``CommonNameUserConversion`` of ``pkg/authentication/request/x509`` of Kubernetes' apiserver.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["user_of"]

_NAME, _GROUP = "commonName", "organizationName"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"


def user_of(transport: asyncio.BaseTransport | None) -> Document | None:
    """Return the user of a connection's client certificate, which the handshake has verified.

    Args:
        transport: the connection.

    Returns:
        The ``userInfo``; None without a certificate, or if that has no common name.
    """
    end = transport.get_extra_info("ssl_object") if transport is not None else None
    if end is None or not (certificate := end.getpeercert()):
        return None
    parts = [pair for part in certificate.get("subject", ()) for pair in part]
    # As Go's: the last common name counts.
    name = next((value for kind, value in reversed(parts) if kind == _NAME), "")
    if not name:
        return None
    digest = hashlib.sha256(end.getpeercert(binary_form=True)).hexdigest()
    return {
        "username": name,
        "groups": [*(value for kind, value in parts if kind == _GROUP), "system:authenticated"],
        "extra": {_CREDENTIAL: [f"X509SHA256={digest}"]},
    }
