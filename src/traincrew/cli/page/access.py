"""Who may use the page: whoever has its address, from this machine, and no other web page.

Every program of this machine can connect to a loopback port, and every web page in the user's
browser can send requests to it. So:

- The printed address contains a token that is valid once, in its fragment, which browsers send to
  nobody. It lives as long as the server: whoever comes back to a terminal after a while has an
  address that opens. The page exchanges it for a session key, which it keeps in the storage of its
  origin, so that new tabs of the same browser have it, and sends with each request in a header:
  other than a cookie, no other page or port can make a browser do that. The key dies with the
  server.
- A request must name this server in ``Host`` (no name of an attacker that resolves to 127.0.0.1),
  and in ``Origin`` and ``Sec-Fetch-Site``, if it has them, this very page.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_SESSIONS = 64
"""Sessions that are kept; the oldest one ends for a new one."""
_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Access:
    """Decides about requests.

    Args:
        port: The port of the server.
    """

    def __init__(self, port: int) -> None:
        self._hosts = frozenset(f"{name}:{port}" for name in _NAMES)
        self._token = ""
        self._sessions: dict[bytes, None] = {}

    def new_token(self) -> str:
        """Return a token that can be exchanged once; the one before is not valid any more."""
        self._token = secrets.token_urlsafe(32)
        return self._token

    def exchange(self, token: str) -> str | None:
        """Return a session key for a token; None if it is wrong or was used."""
        if not self._token or not _same(token, self._token):
            return None
        self._token = ""
        session = secrets.token_urlsafe(32)
        self._sessions[_digest(session)] = None
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def is_session(self, header: str) -> bool:
        """Return whether an ``Authorization`` header has the key of a session."""
        scheme, _, key = header.partition(" ")
        return scheme.lower() == "bearer" and _digest(key) in self._sessions

    def refusal(self, headers: Mapping[str, str]) -> str:
        """Return why a request comes from elsewhere; empty if it may be answered."""
        host = headers.get("Host", "").lower()
        if host not in self._hosts:
            return "the request names another host: use the printed address"
        origin = headers.get("Origin")
        if origin is not None and origin.lower() != f"http://{host}":
            return "the request comes from another web page"
        # Browsers send `none` for an address that was typed, or opened by another program.
        if headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
            return "the request comes from another web page"
        return ""


def _same(given: str, known: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), known.encode())


def _digest(key: str) -> bytes:
    """Return what a key is looked up by: the time of a look-up says nothing about the key."""
    return hashlib.sha256(key.encode(errors="replace")).digest()
