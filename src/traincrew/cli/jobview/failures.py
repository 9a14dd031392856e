"""How a pod has failed, and what its own words say of a script that is missing. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from traincrew.cli.display.podstates import how_it_ended
from traincrew.cli.display.programs import program, that_can_fail
from traincrew.cli.display.text import one_line
from traincrew.plan.shared.pods import termination_text

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Pod

__all__ = ["Failure", "failure_of", "missing_script", "mount_of"]

_MISSING = re.compile(
    r"can't open file '(?P<python>/[^']{1,300})': \[Errno 2\]"
    r"|\bsh: (?:\d+: )?(?:cannot open )?(?P<shell>/[^\s:]{1,300}): No such file"
)
"""What Python, dash and bash say of a script that is not there, with an absolute path."""


class Failure(NamedTuple):
    """How a container of a pod failed.

    Attributes:
        container: Its name.
        exit_code: Its exit code if it ran the pod's program, else 1: the codes of init containers
            and helpers mean nothing for the job.
        text: How it ended, and its last words.
        at: When; empty if not known.
        own: Whether it ran the pod's program.
    """

    container: str
    exit_code: int
    text: str
    at: str
    own: bool


def missing_script(text: str) -> str | None:
    """Return the path of the script that an interpreter did not find, by its own words."""
    found = _MISSING.search(text)
    if found is None:
        return None
    path = posixpath.normpath(one_line(found["python"] or found["shell"]))
    return f"/{path.lstrip('/')}"  # Python joins names with the directory /


def mount_of(script: str) -> str:
    """Return the option of `traincrew run` that puts the script of this absolute path there."""
    directory, name = posixpath.split(script)
    return f"-v {shlex.quote(f'./{name}:{script}' if directory == '/' else f'.:{directory}')}"


def failure_of(pod: Pod) -> Failure | None:
    """Return how the last run of a pod's containers failed; None if it did not.

    A pod that is being deleted is ended for that, whatever the exit codes of its containers are.
    """
    if pod.metadata.deletion_timestamp is not None:
        return None
    own = program(pod)
    for container in that_can_fail(pod):
        state = container.state if container.state.terminated is not None else container.last_state
        ended = state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        words = how_it_ended(replace(container, state=state))
        text = words[0] if words else f"exit code {ended.exit_code}"
        if said := termination_text(ended.message):
            text += f": {one_line(said)}"
        is_own = own is not None and container.name == own.name
        return Failure(
            container=container.name,
            exit_code=ended.exit_code if is_own else 1,
            text=text,
            at=ended.finished_at or "",
            own=is_own,
        )
    return None
