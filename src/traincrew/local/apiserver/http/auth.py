"""Authentication: a pod is code execution as the user, so requests need a token or a certificate.

The server listens on the loopback interface only, but other users of the machine and any page in
the user's browser can reach it, too. Hence every request has to carry a bearer token, the cluster's
or a service account's, or come with a client certificate, unless the server is one for tests that
has anonymous users as well. It must not come from a web page: browsers add ``Origin`` or
``Sec-Fetch-Site`` to whatever a page makes them send, and a name rebound to 127.0.0.1 shows in
``Host``. A websocket or a GET whose ``Origin`` is the server's own address is accepted: see
`_is_own_client`.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address
from typing import TYPE_CHECKING

from traincrew.local.apiserver.requests.user import ANONYMOUS
from traincrew.local.apiserver.values.errors import StatusError, unauthorized

from .tokens import InvalidTokenError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.local.apiserver.values.documents import Document

    from .users import Users

__all__ = ["Authenticator"]

# Origin of websocket clients outside of browsers (golang.org/x/net/websocket requires one).
_NON_BROWSER_ORIGIN = "http://localhost"
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
    """Return whether a host is a loopback address, which cannot be rebound."""
    try:
        return IPv4Address(name).is_loopback
    except AddressValueError:
        return False


def _is_own_client(origin: str, method: str, headers: Mapping[str, str]) -> bool:
    """Return whether the ``Origin`` of a request that reads is the address it was sent to.

    The Python websocket-client, and with it the official Kubernetes client, sends that, and fabric8
    sends it with each watch. A page cannot: this server has no pages, and a name rebound to it is
    rejected by its ``Host``. Pages that pods serve through ``…/proxy`` are recognized by the
    headers that browsers add; an old browser without them sends no ``Origin`` with such a GET.
    """
    scheme, _, place = origin.partition("://")
    return (
        scheme in {"http", "https"}
        and place.lower() == headers.get("Host", "").lower()
        and (method == "GET" or headers.get("Upgrade", "").lower() == "websocket")
        and not any(
            name.lower() == "cookie" or name.lower()[:10] == "sec-fetch-" for name in headers
        )
    )


class Authenticator:
    """Authenticates requests by the client certificate of their connection, or by their token.

    Args:
        users: knows whom a token belongs to.
        hosts: additional host names of this server.
        anonymous: whether requests without either are those of an anonymous user.
    """

    def __init__(self, users: Users, *, hosts: Iterable[str] = (), anonymous: bool = False) -> None:
        self._users = users
        self._anonymous = anonymous
        self._hosts = _LOCAL | frozenset(hosts)

    def authenticate(
        self, method: str, headers: Mapping[str, str], certified: Document | None = None
    ) -> Document:
        """Authenticate a request, before anything else of it is processed.

        Args:
            method: method of the request.
            headers: headers of the request, with case-insensitive names.
            certified: the user of the connection's client certificate, which counts before a token.

        Returns:
            The user who sent it.

        Raises:
            StatusError: 401 without valid credentials, 403 for browsers and other host names.
        """
        origin = headers.get("Origin", _NON_BROWSER_ORIGIN)
        foreign = origin != _NON_BROWSER_ORIGIN and not _is_own_client(origin, method, headers)
        if foreign or headers.get("Sec-Fetch-Site", "none") != "none":
            raise StatusError(403, "Forbidden", "requests from web pages are not served")
        host = headers.get("Host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self._hosts and not _is_loopback(name):
            raise StatusError(403, "Forbidden", "requests for other hosts are not served")
        if certified is not None:
            return certified
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            if self._anonymous:
                return ANONYMOUS
            raise unauthorized()
        try:
            return self._users.identify(token.strip()).user
        except InvalidTokenError:
            raise unauthorized() from None
