"""Who may talk to the API server: a pod is code execution as the user, so not everybody.

The server listens on the loopback interface only, which other users of the machine and any page in
the user's browser can reach too. Hence every request has to know a secret, as the first part of its
path or as a bearer token, and must not come from a web page: browsers add ``Origin`` or
``Sec-Fetch-Site`` to whatever a page makes them send, and a name rebound to 127.0.0.1 shows in
``Host``.
"""

from __future__ import annotations

import hmac
from ipaddress import AddressValueError, IPv4Address
from typing import TYPE_CHECKING

from .errors import StatusError, unauthorized

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .tokens import Tokens

__all__ = ["Gate"]

# What websocket clients without a page say (golang.org/x/net/websocket has to say something).
_NO_PAGE = "http://localhost"
_LOCAL = frozenset(
    {
        "127.0.0.1",
        "localhost",
        "[::1]",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    }
)


def _is_loopback(name: str) -> bool:
    """Whether a host is an address of this machine, which nobody can rebind."""
    try:
        return IPv4Address(name).is_loopback
    except AddressValueError:
        return False


class Gate:
    """Lets requests in that know the secret.

    Args:
        secret: first part of every path; at least 16 characters without ``/``.
        hosts: further names clients may know this server by.

    Raises:
        ValueError: the secret is too short or would split the path.
    """

    def __init__(self, secret: str, *, hosts: Iterable[str] = ()) -> None:
        if len(secret) < 16 or "/" in secret or not secret.isascii():
            raise ValueError("secret: 16 or more ASCII characters without '/' are needed")
        self._secret = secret.encode()
        self._hosts = _LOCAL | frozenset(hosts)

    def admit(self, segments: list[str], headers: Mapping[str, str], tokens: Tokens) -> list[str]:
        """Check a request before anything else is looked at.

        Args:
            segments: of the path.
            headers: of the request, names in any spelling.
            tokens: service account tokens are let in too.

        Returns:
            The segments after the secret.

        Raises:
            StatusError: 401 without the secret, 403 for browsers and foreign names.
        """
        origin = headers.get("Origin", _NO_PAGE)
        if origin != _NO_PAGE or headers.get("Sec-Fetch-Site", "none") != "none":
            raise StatusError(403, "Forbidden", "requests from web pages are not served")
        host = headers.get("Host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self._hosts and not _is_loopback(name):
            raise StatusError(403, "Forbidden", "requests for other hosts are not served")
        # Both are always compared, in constant time each.
        by_path = hmac.compare_digest(segments[0].encode("utf-8", "replace"), self._secret)
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        by_token = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self._secret)
        if by_path:
            return segments[1:]
        if scheme.lower() == "bearer" and (by_token or tokens.claims(token.strip())):
            return segments
        raise unauthorized()
