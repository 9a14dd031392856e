"""Parses torchrun's report of a failed worker process, and the program's own output.

The launcher prints a traceback of its own and a table after the program's output. The table names
the process that failed first, but its exception only if the program uses ``@record``
(https://docs.pytorch.org/docs/stable/elastic/errors.html). Its format has been the same from
PyTorch 1.10 to 2.13, except that newer versions name signals after the exit code.
"""

from __future__ import annotations

import re
import signal

from msgspec import Struct

from traincrew.plan.shared.text import exceptions_in

_LAUNCHER = re.compile(r"ChildFailedError|Root Cause \(first observed failure\)")
_TABLE = re.compile(r"^Failures:$", re.MULTILINE)
_ROOT_CAUSE = re.compile(r"^Root Cause \(first observed failure\):$", re.MULTILINE)
_ENTRY = re.compile(r"^\[\d+\]:$", re.MULTILINE)
_FIELD = re.compile(r"^  (rank|exitcode|traceback) *: (.*)$", re.MULTILINE)
_SIGNAL = re.compile(r"Signal (\d+) \((\w+)\)")
_LOGGED = re.compile(r"[IWE]\d{4} \d\d:\S+ \d+ torch/distributed/")
_OTHER_RANK = re.compile(r"(?:\[[^\]]*\]:? ?)*\[rank\d+\]:")
_LOST_PEER = re.compile(
    r"by peer|Broken pipe|Connection refused|failed to recv, got 0 bytes"  # gloo, TCPStore
    r"|Timed out waiting \d+ms for (?:recv|send) operation"
    r"|remote process exited|ncclRemoteError|NCCL communicator was aborted"
)
"""How a process reports that another one is gone, with gloo and NCCL."""
_TRACEBACK = "Traceback (most recent call last):"
_NUMBER = re.compile(r"-?\d{1,9}")
_ENDED_BY_LAUNCHER = -signal.SIGTERM


class Failure(Struct, frozen=True):
    """A process that failed.

    Attributes:
        rank: Rank of the process.
        exit_code: Exit code; negative if a signal ended the process.
        signal: Number and name of that signal, if nothing else is known.
        recorded: The exception in the table, if the program records it.
    """

    rank: int
    exit_code: int
    signal: str = ""
    recorded: str = ""

    def text(self, output: str = "") -> str:
        """Return the failure as one line, with the process's own output, if any."""
        if self.signal:
            return f"rank {self.rank} was ended by signal {self.signal}"
        if output:
            return f"{output} (rank {self.rank}, exit code {self.exit_code})"
        return f"rank {self.rank} failed with exit code {self.exit_code}"


def is_from_launcher(message: str) -> bool:
    """Return whether a log ends with torchrun's report of a failure."""
    return _LAUNCHER.search(message) is not None


def failure(message: str) -> Failure | None:
    """Return the process that failed first, from torchrun's table; None if there is no table.

    When one process fails, torchrun ends the others with SIGTERM. If it reports one of those as the
    first, because only that one recorded its time of failure, another entry of the table is used.
    So it is if the process that it reports lost the connection to another one: torchrun looks at
    all of them at intervals, and reports any of those that have failed meanwhile as the first.
    """
    heading = _ROOT_CAUSE.search(message)
    if heading is None:
        return None
    roots = _entries(message[heading.end() :])
    if not roots:
        return None
    table = _TABLE.search(message)
    others = _entries(message[table.end() : heading.start()]) if table is not None else []
    own = [entry for entry in [*roots, *others] if entry.exit_code != _ENDED_BY_LAUNCHER]
    causes = [entry for entry in own if not _is_result(message, entry)]
    return next(iter(causes or own or roots))


def _entries(text: str) -> list[Failure]:
    entries = (_entry(part) for part in _ENTRY.split(text)[1:])
    return [entry for entry in entries if entry is not None]


def _entry(text: str) -> Failure | None:
    found = list(_FIELD.finditer(text))
    # The first of each: a message of several lines may look like fields, too.
    fields = {field[1]: field[2] for field in reversed(found)}
    rank = _NUMBER.match(fields.get("rank", ""))
    code = _NUMBER.match(fields.get("exitcode", ""))
    if rank is None or code is None:
        return None
    ended = _SIGNAL.match(fields.get("traceback", ""))
    recorded = [output for tags, output in exceptions_in(text) if not tags]
    return Failure(
        rank=int(rank.group()),
        exit_code=int(code.group()),
        signal=f"{ended.group(1)} ({ended.group(2)})" if ended is not None else "",
        recorded=recorded[-1] if recorded else "",
    )


def cause(message: str) -> str:
    """Return why a process failed, by its own output if available; empty if unknown.

    PyTorch tags the traceback of a process with its rank since version 2.2. The other processes
    fail as a result of the first failure; their output is not the cause.
    """
    failed = failure(message)
    return failed.text(_output(message, failed)) if failed is not None else ""


def hides_cause(message: str) -> bool:
    """Return whether more of a log is needed to find the output of the process that failed."""
    failed = failure(message)
    if failed is not None and _is_result(message, failed):
        return _TABLE.search(message) is None  # the one that failed first may be among the others
    return failed is None or not (failed.signal or _output(message, failed))


def own_lines(lines: list[str]) -> list[str]:
    """Return the lines of the failed process, of a log that ends with torchrun's report.

    If there are none, return the lines not printed by torchrun or other processes; else all lines.
    """
    failed = failure("\n".join(lines))
    if failed is None:
        return lines
    if own := [line for line in lines if f"[rank{failed.rank}]:" in line]:
        return own
    end = next(index for index, line in enumerate(lines) if _LAUNCHER.search(line))
    begin = max((i for i in range(end) if lines[i] == _TRACEBACK), default=end)
    program = [
        line for line in lines[:begin] if not _LOGGED.match(line) and not _OTHER_RANK.match(line)
    ]
    return program or lines


def _is_result(message: str, failed: Failure) -> bool:
    """Return whether a process failed as a result of another one's failure."""
    if failed.exit_code == _ENDED_BY_LAUNCHER:
        return True
    return _LOST_PEER.search(_output(message, failed)) is not None


def _output(message: str, failed: Failure) -> str:
    program = _LAUNCHER.split(message, maxsplit=1)[0]
    exceptions = exceptions_in(program)
    own = [output for tags, output in exceptions if f"[rank{failed.rank}]:" in tags]
    if own or failed.recorded:
        return failed.recorded or own[-1]
    untagged = [output for tags, output in exceptions if "[rank" not in tags]
    if not untagged or len(untagged) != len(exceptions):
        return ""
    causes = [output for output in untagged if not _LOST_PEER.search(output)]
    return (causes or untagged)[-1]
