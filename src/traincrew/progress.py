"""Reports the progress of a training program to its job: percentage, time left, metrics.

This file needs nothing but Python 3.8 or newer: copy it next to your program, or
``import traincrew.progress``. It speaks the protocol of Kubeflow Trainer (KEP-2779), so it works
there as well. Where nobody asks for reports it does nothing.

    from traincrew.progress import report, track

    for epoch in track(range(20)):
        loss = train(epoch)
        report(metrics={"loss": loss})

Rank 0 reports. The other ranks only say how far they are, so that one that falls behind is noticed,
and only where traincrew asks.

A thread sends the newest report, at most one each second. The program never waits for it, except
for at most two seconds at its end for the last one, and never fails because of it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import random
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, Dict, Optional, Type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeVar

    Item = TypeVar("Item")

__all__ = ["report", "track"]

URL = "KUBEFLOW_TRAINER_SERVER_URL"
CA_CERT = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 - the name of a variable
"""Variables of KEP-2779: an URL, and the paths of two files."""

RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID")
"""Variables with the rank of a process. Only rank 0 reports: there is one progress for each job."""
SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")
"""Variables with the number of ranks."""

OURS = re.compile("/apis/(?!trainer[.]kubeflow[.]org/)")
"""Begins the paths of servers that take positions of ranks: those of Kubeflow Trainer do not."""

MIN_INTERVAL = 1.0
"""Seconds between two reports."""
POSITION_INTERVAL, POSITIONS_PER_SECOND = 10.0, 50.0
"""Seconds between two positions of a rank, on average; more if the job would send so many."""
TIMEOUT = 5.0
"""Seconds that a report may take."""
RETRY_SECONDS = 5.0
"""Seconds after which a report is sent again that was not accepted, or what replaces it."""
LAST_SECONDS = 2.0
"""Seconds that a program waits at its end for its last report."""

Status = Dict[str, Any]


def report(
    percentage: Optional[float] = None,
    remaining_seconds: Optional[float] = None,
    metrics: Optional[Mapping[str, Any]] = None,
) -> bool:
    """Report how far the training is. Never raises an error, and never waits.

    What is left out keeps the value of the report before, as do metrics that are not named.

    Args:
        percentage: How much of the work is done, from 0 to 100.
        remaining_seconds: The estimated time left.
        metrics: The newest metrics by name, such as ``{"loss": 0.41}``.

    Returns:
        Whether somebody asks for reports of this process. Of ranks other than 0 nobody asks for
        more than the percentage.
    """
    try:
        if not os.environ.get(URL):
            return False
        rank = _first_number(RANKS)
        if rank is not None and percentage is not None and math.isfinite(percentage):
            _send_position(rank, percentage)
        if rank:
            return False
        _sender(_Reports).put(_status(percentage, remaining_seconds, metrics))
    except Exception:  # no report is worth the failure of a training
        return False
    return True


def track(items: Iterable[Item], total: Optional[int] = None) -> Iterator[Item]:
    """Yield the items, and report percentage and time left after each of them.

    Args:
        items: What the training loops over, such as ``range(epochs)``.
        total: Their number, if they have no length; without it nothing is reported.
    """
    count = total if total is not None else _length(items)
    started = time.monotonic()
    if count:
        report(0)
    for done, item in enumerate(items, 1):
        yield item
        if count:
            each = (time.monotonic() - started) / done
            report(100.0 * done / count, each * max(0, count - done))


def _length(items: Any) -> Optional[int]:
    try:
        return len(items)
    except TypeError:
        return None


def _first_number(names: Iterable[str]) -> Optional[int]:
    """Return the first of some variables that is set; None if none is."""
    return next((int(os.environ[name]) for name in names if os.environ.get(name)), None)


def _send_position(rank: int, percentage: float) -> None:
    size = _first_number(SIZES)
    if size == 1 or not OURS.match(urllib.parse.urlsplit(os.environ[URL]).path):
        return
    percentage = max(0.0, min(100.0, float(percentage)))
    position: Status = {"rank": rank, "percentage": round(percentage, 2)}
    if size is not None:
        position["worldSize"] = size
    # The end is not left for later: the process may be gone before.
    _sender(_Positions).put(position, urgent=percentage == 100)


def _status(percentage: Any, remaining_seconds: Any, metrics: Any) -> Status:
    """Return the fields of a report; what is not a finite number is left out."""
    status: Status = {}
    if percentage is not None and math.isfinite(percentage):
        status["progressPercentage"] = max(0, min(100, int(percentage)))
    if remaining_seconds is not None and math.isfinite(remaining_seconds):
        status["estimatedRemainingSeconds"] = max(0, math.ceil(remaining_seconds))
    if metrics:
        # Arrays and tensors of one element print like numbers this way.
        status["metrics"] = {
            str(name): str(value.item() if hasattr(value, "item") else value)
            for name, value in metrics.items()
        }
    return status


class _Sender:
    """Sends the newest content, from a thread that ends with the program.

    Attributes:
        address: What follows the URL.
        waits: Whether the program waits at its end until the newest content is sent.
        process: The process that made it: a fork has none of its threads.
    """

    address = ""
    waits = True

    def __init__(self) -> None:
        self.process = os.getpid()
        self._changed = threading.Condition()
        self._content: Status = {}
        self._pending = False
        self._urgent = False
        self._busy = False
        self._ending = False
        self._context: Any = None
        self._next = time.monotonic() + self._first_delay()
        threading.Thread(target=self._run, name="traincrew-progress", daemon=True).start()
        atexit.register(self._finish)

    def _first_delay(self) -> float:
        return 0.0

    def _interval(self) -> float:
        return MIN_INTERVAL

    def _merge(self, content: Status) -> Status:
        return content

    def _body(self, content: Status) -> Status:
        return content

    def put(self, content: Status, urgent: bool = False) -> None:
        """Replace what is not sent yet.

        Args:
            content: What is sent.
            urgent: Whether it is sent at once.
        """
        with self._changed:
            self._content = self._merge(content)
            self._urgent = urgent
            self._pending = True
            self._changed.notify_all()

    def _finish(self) -> None:
        if os.getpid() != self.process:
            return
        end = time.monotonic() + LAST_SECONDS
        with self._changed:
            if not (self.waits or self._urgent or self._busy):
                return
            self._ending = True
            self._changed.notify_all()
            while (self._pending or self._busy) and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def _seconds_left(self) -> Optional[float]:
        """Return the time until something is sent; None if there is nothing."""
        if not self._pending:
            return None
        return 0.0 if self._ending or self._urgent else max(0.0, self._next - time.monotonic())

    def _run(self) -> None:
        while True:
            with self._changed:
                while (left := self._seconds_left()) != 0:
                    self._changed.wait(left)
                self._pending, self._urgent, self._busy = False, False, True
                content = self._content
            sent = False
            with contextlib.suppress(Exception):  # the next one may succeed
                self._send(self._body(content))
                sent = True
            with self._changed:
                self._busy = False
                wait = self._interval()
                if not sent and not self._ending:
                    # It may be the last one: of a program that hangs.
                    self._pending, wait = True, max(wait, RETRY_SECONDS)
                self._next = time.monotonic() + wait
                self._changed.notify_all()

    def _send(self, body: Status) -> None:
        with open(os.environ[TOKEN], encoding="utf-8") as file:  # rotated
            token = file.read().strip()
        if self._context is None:
            self._context = ssl.create_default_context(cafile=os.environ.get(CA_CERT) or None)
        request = urllib.request.Request(  # noqa: S310 - the URL is that of the job's operator
            os.environ[URL] + self.address,
            data=json.dumps(body).encode(),
            headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"},
            method="POST",
        )
        # A proxy for the internet knows nothing of the cluster's own names.
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self._context)
        )
        try:
            with opener.open(request, timeout=TIMEOUT) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            error.close()  # it is an open answer
            raise


class _Reports(_Sender):
    """Sends reports in the protocol of Kubeflow Trainer."""

    def _merge(self, content: Status) -> Status:
        metrics = {**self._content.get("metrics", {}), **content.get("metrics", {})}
        merged = {**self._content, **content}
        return {**merged, "metrics": metrics} if metrics else merged

    def _body(self, content: Status) -> Status:
        status = dict(content)
        if "metrics" in status:
            pairs = status["metrics"].items()
            status["metrics"] = [{"name": name, "value": value} for name, value in pairs]
        status["lastUpdatedTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {"trainerStatus": status}


class _Positions(_Sender):
    """Sends the position of a rank, seldom, and at another time than the other ranks."""

    address = "/ranks"
    waits = False

    def _first_delay(self) -> float:
        return self._seconds(0.0, 1.0)

    def _interval(self) -> float:
        return self._seconds(0.5, 1.5)

    def _seconds(self, least: float, most: float) -> float:
        average = max(POSITION_INTERVAL, (_first_number(SIZES) or 1) / POSITIONS_PER_SECOND)
        # Not the generator that the training has seeded.
        return average * random.SystemRandom().uniform(least, most)


_SENDERS: Dict[Type[_Sender], _Sender] = {}
_LOCK = threading.Lock()


def _sender(kind: Type[_Sender]) -> _Sender:
    found = _SENDERS.get(kind)
    if found is None or found.process != os.getpid():
        with _LOCK:
            found = _SENDERS.get(kind)
            if found is None or found.process != os.getpid():
                found = _SENDERS[kind] = kind()
    return found
