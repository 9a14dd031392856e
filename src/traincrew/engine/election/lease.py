"""Leader election with a Lease: one process acts; another takes over if it stops renewing.

As in client-go's leader election, clocks of different machines are never compared. A candidate
measures with its own monotonic clock for how long the Lease has not changed; a leader measures how
long ago its own last successful renewal began. The leader gives up after ``renew_deadline``, others
take over after ``duration``; the difference is the time a slow write has to complete.

Wall-clock time counts too, in one direction: a machine that was suspended may find its monotonic
clock unmoved, so `LeaderElector.is_leader` is false until the next renewal has succeeded.

Unlike client-go's, a candidate watches the Lease. It sees each renewal when it happens, so it takes
over when the Lease expires and not some polls later; and at once when the Lease is released.
Without the watch (forbidden, broken) it falls back to polling every ``retry_period``.

Also unlike client-go's, a leader that has lost the Lease can take part again: see `Manager`.
"""
# Over 400 lines: the two proofs of leadership (clock and Lease) are read together.

from __future__ import annotations

import asyncio
import contextlib
import math
import random
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.election.leasewatch import follow_lease
from traincrew.engine.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
)
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import LEASES
from traincrew.engine.times import format_micro_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from traincrew.engine.client import Client
    from traincrew.engine.observability import Metrics

_SHORTEST_ATTEMPT = 0.5
_SHORTEST_PAUSE = 0.1
_RELEASE_TIMEOUT = 2.0


class LeadershipLost(Exception):  # noqa: N818 - the name callers know from client-go
    """Another process may act now; this one must not."""


class _Seen(Struct, frozen=True):
    """A state of the Lease, and when this process first saw it by its monotonic clock."""

    version: str = ""
    holder: str = ""
    duration: float = 0.0
    at: float = 0.0


class LeaderElector:
    """Takes part in the election for one Lease.

    Args:
        client: The API server.
        namespace: Where the Lease is.
        name: Name of the Lease.
        identity: Unique to this process, such as host name and a random suffix.
        duration: Seconds without a renewal after which others take over.
        renew_deadline: Seconds without a successful renewal after which this process gives up.
        retry_period: Seconds between attempts.
        clock: Source of time.
        rng: Source of jitter.
        metrics: Where leadership is recorded, if anywhere.

    Raises:
        ValueError: The durations do not leave a safe margin.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        clock: Clock = SYSTEM_CLOCK,
        rng: random.Random | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        if not duration > renew_deadline > retry_period > 0:
            raise ValueError(
                "lease times must satisfy duration > renew_deadline > retry_period > 0, "
                f"not {duration} > {renew_deadline} > {retry_period}"
            )
        if duration < 1:
            raise ValueError(f"lease duration must be at least 1 second, not {duration}")
        if not identity:
            raise ValueError("lease identity must not be empty")
        self.identity = identity
        self.name = name
        self._client = client
        self._namespace = namespace
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._lease: dict[str, Any] | None = None
        self._seen = _Seen()
        self._renewed_at: tuple[float, datetime] | None = None
        self._following = False
        self._changed = asyncio.Event()
        self._log = get_logger(lease=f"{namespace}/{name}", identity=identity)
        if metrics is not None:
            self.use_metrics(metrics)

    def use_metrics(self, metrics: Metrics) -> None:
        """Record leadership in these metrics."""
        metrics.leader.compute((self.name,), lambda: float(self.is_leader()))

    @property
    def holder(self) -> str:
        """Identity of the holder when the Lease was last seen; empty if there was none."""
        return self._seen.holder

    @property
    def margin(self) -> float:
        """Seconds between the end of this process' leadership and the start of another's.

        A write that was allowed has this long to reach the server.
        """
        return self._duration - self._renew_deadline

    def is_leader(self) -> bool:
        """Return whether this process may act now, by both of its own clocks."""
        if self._renewed_at is None:
            return False
        monotonic, wall = self._renewed_at
        return (
            self._clock.monotonic() - monotonic < self._renew_deadline
            and (self._clock.now() - wall).total_seconds() < self._renew_deadline
        )

    def ensure_leader(self) -> None:
        """Check leadership; to be called right before every write.

        A process that was stopped for a minute continues in the middle of what it was doing, before
        any timer fires.

        Raises:
            LeadershipLost: This process must not act now.
        """
        if not self.is_leader():
            raise LeadershipLost(f"{self._described} was not renewed in time")

    @property
    def _described(self) -> str:
        return f"lease {self._namespace}/{self.name}"

    async def run(self, started: Callable[[], object]) -> None:
        """Wait for leadership, call ``started``, then keep it until cancelled.

        The Lease is not released here: call `release` when all work has stopped. After a loss it
        may be called again, but only when everything that acted has ended: leadership is the same
        for each term, so what is left of one would act in the next.

        Raises:
            LeadershipLost: It could not be renewed in time, or another process has had it.
        """
        self.give_up()
        await self._acquire()
        self._log.info("leading")
        started()
        try:
            await self._keep()
        except LeadershipLost:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Lead no longer, and leave the Lease as it is: it may be another process' by now."""
        self._renewed_at = None
        self._lease = None

    # -- waiting for leadership ---------------------------------------------------------------

    async def _acquire(self) -> None:
        follower = asyncio.create_task(self._follow(), name=f"follow-lease-{self.name}")
        try:
            while not await self._attempt(self._renew_deadline) or not await self._has_time():
                await self._wait_until_free()
        finally:
            follower.cancel()
            await asyncio.gather(follower, return_exceptions=True)

    async def _has_time(self) -> bool:
        """Return whether the Lease just acquired lasts; a slow answer has used up part of it.

        It is renewed once, at once: an API server that was stopped may answer quickly by now.
        """
        if self._remaining() < self._renew_deadline / 2:
            await self._attempt(self._renew_deadline)
        return self._remaining() > 0

    async def _wait_until_free(self) -> None:
        """Wait until an attempt makes sense: the Lease has expired or was released."""
        patience = self._retry_period * (1.0 + 0.2 * self._rng.random())
        began = self._clock.monotonic()
        while True:
            self._changed.clear()
            left = began + patience - self._clock.monotonic()
            if self._following and self._held_by_another:
                left = self._expires_in() or left
            elif self._held_by_another:
                left = min(left, self._expires_in() or left)
            elif self._seen.at > began:
                return
            try:
                async with asyncio.timeout(max(0.0, left)):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def _follow(self) -> None:
        """Watch the Lease as long as another process holds it."""
        log_once = self._log.warning
        while True:
            if self._seen.version:
                try:
                    await follow_lease(
                        self._client,
                        self._namespace,
                        self.name,
                        self._seen.version,
                        silence=self._duration,
                        opened=lambda: self._set_following(True),
                        changed=self._observe,
                    )
                except ForbiddenError as error:
                    log, log_once = log_once, self._log.debug
                    log(
                        "lease may not be watched; taking over will be some seconds slower",
                        error=error.message,
                    )
                except ApiError as error:
                    self._log.debug("lease not watched", error=str(error))
                finally:
                    self._set_following(False)
            await asyncio.sleep(self._retry_period)

    def _set_following(self, following: bool) -> None:
        self._following = following
        self._changed.set()

    @property
    def _held_by_another(self) -> bool:
        return self._seen.holder not in {"", self.identity}

    def _expires_in(self) -> float:
        """Return the seconds until the Lease, as last seen, expires; 0 if it has expired."""
        return max(0.0, self._seen.at + self._seen.duration - self._clock.monotonic())

    # -- keeping leadership ---------------------------------------------------------------

    async def _keep(self) -> None:
        pause = self._retry_period
        while True:
            await asyncio.sleep(min(pause, max(0.0, self._remaining())))
            remaining = self._remaining()
            # Each attempt may take half of the remaining time, so that there is time for another
            # one, and a lost packet or a slow server does not cost the leadership.
            limit = max(remaining / 2, min(remaining, _SHORTEST_ATTEMPT))
            if remaining > 0 and await self._attempt(limit, keep=True):
                pause = self._retry_period
                continue
            pause = min(self._retry_period, max(self._remaining() / 4, _SHORTEST_PAUSE))
            if self._held_by_another:
                raise LeadershipLost(f"{self._described}: now {self.holder}'s")
            if self._remaining() <= 0:
                raise LeadershipLost(
                    f"{self._described}: not renewed within {self._renew_deadline:g} s"
                )

    def _remaining(self) -> float:
        """Return the seconds until leadership is given up, by the monotonic clock."""
        if self._renewed_at is None:
            return 0.0
        return self._renewed_at[0] + self._renew_deadline - self._clock.monotonic()

    # -- one attempt --------------------------------------------------------------------------

    async def _attempt(self, limit: float, *, keep: bool = False) -> bool:
        """Try to acquire or renew within ``limit`` seconds.

        Args:
            limit: Seconds.
            keep: Only renew: a Lease that another process has had meanwhile is a new term.

        Raises:
            LeadershipLost: It is to be kept, and is not this process' any more.
        """
        began = (self._clock.monotonic(), self._clock.now())
        try:
            async with asyncio.timeout(limit):
                if not await self._acquire_or_renew(keep=keep):
                    return False
        except (ConflictError, AlreadyExistsError, NotFoundError):
            self._lease = None  # another process was faster; read the Lease again next time
            return False
        except (ApiError, TimeoutError) as error:
            self._log.warning("lease not reachable", error=str(error) or "time out")
            self._lease = None
            return False
        # Measured from before the request: others measure from when they see its effect.
        self._renewed_at = began
        return True

    async def _acquire_or_renew(self, *, keep: bool) -> bool:
        lease = self._lease
        if lease is None:
            try:
                lease = await self._client.get(LEASES, self.name, self._namespace)
            except NotFoundError:
                # The Lease was deleted, but its holder does not know and still acts.
                if self._held_by_another and self._expires_in() > 0:
                    return False
                lease = await self._client.create(LEASES, self._new_lease())
                self._observe(lease)
                self._lease = lease
                return True
            self._observe(lease)
        if self._held_by_another and self._expires_in() > 0:
            return False
        spec = lease.get("spec") or {}
        if keep and spec.get("holderIdentity") != self.identity:
            owner = f"now {self.holder}'s" if self.holder else "it has been released"
            raise LeadershipLost(f"{self._described}: {owner}")
        now = format_micro_time(self._clock.now())
        changes: dict[str, Any] = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._duration),
            "renewTime": now,
        }
        if spec.get("holderIdentity") != self.identity:
            changes |= {
                "acquireTime": now,
                "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1,
            }
        lease = await self._client.replace(LEASES, lease | {"spec": spec | changes})
        self._observe(lease)
        self._lease = lease
        return True

    def _observe(self, lease: dict[str, Any]) -> None:
        """Record the current state of the Lease."""
        version = (lease.get("metadata") or {}).get("resourceVersion") or ""
        if version != self._seen.version:
            spec = lease.get("spec") or {}
            self._seen = _Seen(
                version=version,
                holder=spec.get("holderIdentity") or "",
                duration=float(spec.get("leaseDurationSeconds") or self._duration),
                at=self._clock.monotonic(),
            )
            self._changed.set()

    def _new_lease(self) -> dict[str, Any]:
        now = format_micro_time(self._clock.now())
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self.name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": math.ceil(self._duration),
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 0,
            },
        }

    async def release(self) -> None:
        """Release the Lease so that a successor need not wait; call when all work has stopped."""
        led, self._renewed_at = self.is_leader(), None
        lease, self._lease = self._lease, None
        if not led:
            return
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT):
                if lease is not None:
                    with contextlib.suppress(ConflictError):
                        await self._clear_holder(lease)
                        return
                # A renewal may have been stored although its response never arrived.
                lease = await self._client.get(LEASES, self.name, self._namespace)
                if (lease.get("spec") or {}).get("holderIdentity") == self.identity:
                    await self._clear_holder(lease)
        except (ApiError, TimeoutError) as error:
            self._log.info("lease not released", error=str(error) or "time out")

    async def _clear_holder(self, lease: dict[str, Any]) -> None:
        spec = (lease.get("spec") or {}) | {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "renewTime": format_micro_time(self._clock.now()),
        }
        await self._client.replace(LEASES, lease | {"spec": spec})
