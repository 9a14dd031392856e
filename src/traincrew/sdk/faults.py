"""Faults on request: how does a client cope with a slow, failing or forgetful API server?

with cluster.faults.error(500, verb="update", resource="leases", client="my-controller"):
    ...
cluster.faults.conflict(resource="deployments", times=3)
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Literal, Self

from traincrew.local.apiserver.authorization import request_attributes
from traincrew.local.apiserver.http.faults import Fault, refuse
from traincrew.local.apiserver.requests import split_path
from traincrew.sdk.audit import concerns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

__all__ = ["Faults", "Injection"]

_MOST_SECONDS = 3600.0
_VERBS = frozenset(
    {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
)


class Injection:
    """A fault that is injected into requests until it is removed, or used up.

    Attributes:
        count: how often it was injected.
    """

    def __init__(
        self,
        faults: Faults,
        fault: Fault,
        verbs: frozenset[str],
        *,
        resource: str | None,
        client: str | None,
        times: int | None,
    ) -> None:
        self._faults = faults
        self._fault = fault
        self._verbs = verbs
        self._resource = resource
        self._client = client or ""
        self._left = times
        self.count = 0

    def choose(self, method: str, path: str, agent: str) -> Fault | None:
        """Return the fault for a request that it concerns; called by the server."""
        if not agent.startswith(self._client) or self._left == 0:
            return None
        segments, query = split_path(path)
        found = request_attributes(method, segments, query)
        if self._verbs and found.verb not in self._verbs:
            return None
        if not concerns(found.group, found.resource, found.subresource, self._resource):
            return None
        self.count += 1
        if self._left is not None:
            self._left -= 1
        return self._fault

    def remove(self) -> None:
        """End it; a second call has no effect."""
        self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


class Faults:
    """Injects faults into requests. The first injection that concerns a request counts.

    Each method takes the same keywords, and returns an `Injection`, which ends with `remove` or as
    a context manager:

    - ``verb``: as in a Role, or several of them; any if it is None;
    - ``resource``: ``pods``, ``pods/status`` or ``deployments.apps``;
    - ``client``: how the user agent begins, as in ``kubectl``. Without it, faults hit everybody:
      the test's own client and the controllers of the cluster as well;
    - ``times``: into how many requests; into all if it is None.
    """

    def __init__(self, expire: Callable[[str | None], int]) -> None:
        self._expire = expire
        self._injections: tuple[Injection, ...] = ()
        self._lock = threading.Lock()

    def choose(self, method: str, path: str, agent: str) -> Fault | None:
        """Return the fault for a request; called by the server."""
        for each in self._injections:
            if (fault := each.choose(method, path, agent)) is not None:
                return fault
        return None

    def delay(
        self,
        seconds: float,
        *,
        verb: str | Iterable[str] | None = None,
        resource: str | None = None,
        client: str | None = None,
        times: int | None = None,
    ) -> Injection:
        """Let requests wait before they are processed, at most an hour.

        Raises:
            ValueError: the time, or an argument that all methods have, cannot be used.
        """
        if not 0 <= seconds <= _MOST_SECONDS:
            raise ValueError(f"seconds: 0 to {_MOST_SECONDS:g}, not {seconds}")
        return self._add(Fault(delay=seconds), verb, resource, client, times)

    def error(
        self,
        code: int = 500,
        message: str = "injected fault",
        *,
        retry_after: int | None = None,
        verb: str | Iterable[str] | None = None,
        resource: str | None = None,
        client: str | None = None,
        times: int | None = None,
    ) -> Injection:
        """Answer with an error instead of processing the request.

        Args:
            code: such as 403, 409, 410, 429, 500, 503, 504.
            message: message of the Status.
            retry_after: seconds, also sent as ``Retry-After``.
            verb: see the class, as for the others.
            resource: likewise.
            client: likewise.
            times: likewise.

        Raises:
            ValueError: the code is none of an error.
        """
        if not 400 <= code <= 599:
            raise ValueError(f"code: 400 to 599, not {code}")
        fault = refuse(code, message, retry_after=retry_after)
        return self._add(fault, verb, resource, client, times)

    def conflict(
        self,
        *,
        verb: str | Iterable[str] | None = ("update", "patch"),
        resource: str | None = None,
        client: str | None = None,
        times: int | None = None,
    ) -> Injection:
        """Answer writes with 409, as if another client had been faster."""
        message = (
            "Operation cannot be fulfilled: the object has been modified; please apply your changes"
            " to the latest version and try again"
        )
        return self._add(refuse(409, message), verb, resource, client, times)

    def cut(
        self,
        when: Literal["before", "after"] = "before",
        *,
        verb: str | Iterable[str] | None = None,
        resource: str | None = None,
        client: str | None = None,
        times: int | None = None,
    ) -> Injection:
        """Close the connection without an answer, before or after the request is processed.

        Raises:
            ValueError: it is neither.
        """
        if when not in {"before", "after"}:
            raise ValueError(f"when: before or after, not {when!r}")
        return self._add(Fault(cut=when), verb, resource, client, times)

    def expire_watches(self, resource: str | None = None) -> int:
        """End running watches with 410 Expired, so that clients have to list again.

        For one client alone, or for its next watch, use ``error(410, verb="watch", client=...)``.

        Args:
            resource: ``pods`` or ``deployments.apps``; None for all.

        Returns:
            The number of watches that were running.
        """
        return self._expire(resource)

    def clear(self) -> None:
        """End all injections."""
        with self._lock:
            self._injections = ()

    def remove(self, injection: Injection) -> None:
        """End an injection."""
        with self._lock:
            self._injections = tuple(each for each in self._injections if each is not injection)

    def _add(
        self,
        fault: Fault,
        verb: str | Iterable[str] | None,
        resource: str | None,
        client: str | None,
        times: int | None,
    ) -> Injection:
        verbs = frozenset([verb] if isinstance(verb, str) else verb or ())
        if unknown := sorted(verbs - _VERBS):
            raise ValueError(f"verb: {unknown[0]!r} is none of {', '.join(sorted(_VERBS))}")
        if times is not None and times < 1:
            raise ValueError(f"times: 1 or more, not {times}")
        injection = Injection(self, fault, verbs, resource=resource, client=client, times=times)
        with self._lock:
            self._injections = (*self._injections, injection)
        return injection
