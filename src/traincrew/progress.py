"""Reports the progress of a training program to its job: percentage, time left, metrics.

This file needs nothing but Python 3.8 or newer: copy it next to your program, or
``import traincrew.progress``. It speaks the protocol of Kubeflow Trainer (KEP-2779), so it works
there as well. Where nobody asks for reports it does nothing.

    from traincrew.progress import report, track

    for epoch in track(range(20)):
        loss = train(epoch)
        report(metrics={"loss": loss})

A thread sends the newest report, at most one each second. The program never waits for it, except
for at most two seconds at its end for the last one, and never fails because of it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Dict, Optional

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

MIN_INTERVAL = 1.0
"""Seconds between two reports."""
TIMEOUT = 5.0
"""Seconds that a report may take."""
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
        Whether somebody asks for reports of this process.
    """
    try:
        if not os.environ.get(URL) or not _is_first_rank():
            return False
        _sender().put(_status(percentage, remaining_seconds, metrics))
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


def _is_first_rank() -> bool:
    given = (os.environ[name] for name in RANKS if os.environ.get(name))
    return next(given, "0") == "0"


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
    """Sends the newest status, from a thread that ends with the program.

    Attributes:
        process: The process that made it: a fork has none of its threads.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self._changed = threading.Condition()
        self._status: Status = {}
        self._pending = False
        self._busy = False
        self._ending = False
        self._context: Any = None
        self._metrics: Dict[str, str] = {}
        threading.Thread(target=self._run, name="traincrew-progress", daemon=True).start()
        atexit.register(self._finish)

    def put(self, status: Status) -> None:
        """Add a report, which replaces what is not sent yet."""
        with self._changed:
            self._metrics.update(status.pop("metrics", {}))
            self._status.update(status)
            self._pending = True
            self._changed.notify_all()

    def _finish(self) -> None:
        if os.getpid() != self.process:
            return
        end = time.monotonic() + LAST_SECONDS
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            while (self._pending or self._busy) and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._pending:
                    self._changed.wait()
                self._pending, self._busy = False, True
                status = dict(self._status)
                if self._metrics:
                    pairs = self._metrics.items()
                    status["metrics"] = [{"name": name, "value": value} for name, value in pairs]
            with contextlib.suppress(Exception):  # the next report may succeed
                self._send(status)
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                if not self._ending:
                    self._changed.wait_for(lambda: self._ending, MIN_INTERVAL)

    def _send(self, status: Status) -> None:
        status["lastUpdatedTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with open(os.environ[TOKEN], encoding="utf-8") as file:  # rotated
            token = file.read().strip()
        if self._context is None:
            self._context = ssl.create_default_context(cafile=os.environ.get(CA_CERT) or None)
        request = urllib.request.Request(  # noqa: S310 - the URL is that of the job's operator
            os.environ[URL],
            data=json.dumps({"trainerStatus": status}).encode(),
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


_SENDERS: Dict[int, _Sender] = {}
_LOCK = threading.Lock()


def _sender() -> _Sender:
    process = os.getpid()
    if process not in _SENDERS:
        with _LOCK:
            if process not in _SENDERS:
                _SENDERS.clear()
                _SENDERS[process] = _Sender()
    return _SENDERS[process]
