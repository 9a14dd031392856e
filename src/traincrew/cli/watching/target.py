"""Chooses the cluster of a command: by kubectl's rules, else the embedded one that runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.cluster.files import DEFAULT_NAME, all_clusters
from traincrew.cli.cluster.runs import runs
from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput
from traincrew.engine.config import load_config
from traincrew.engine.errors import ConfigError

if TYPE_CHECKING:
    from traincrew.cli.cluster.runs import Run
    from traincrew.engine.config import ClientConfig

__all__ = ["Target", "choose", "option_for"]


class Target(NamedTuple):
    """A cluster.

    Attributes:
        config: How to reach it.
        name: What to call it in messages.
        doubt: Which other cluster may have been meant, and how to choose it; mostly empty.
        run: The run with which the cluster ends, if it is that of a `traincrew run`.
        options: With which another command finds it, in a shell with the environment of this
            process; empty in a pod, whose service account is found by itself.
    """

    config: ClientConfig
    name: str
    doubt: str = ""
    run: Run | None = None
    options: tuple[str, ...] = ()


class _Running(NamedTuple):
    """An embedded cluster that is running."""

    name: str
    kubeconfig: str
    option: str
    run: Run | None = None


def choose(kubeconfig: str | None, context: str | None) -> Target:
    """Choose a cluster.

    The sources, in this order: the given kubeconfig or context; KUBECONFIG; the service account of
    a pod; ``~/.kube/config``; the embedded cluster that is running, of `traincrew up` before that
    of a `traincrew run`.

    Raises:
        BadInput: There is none, or the choice is not clear; the message says how to choose.
    """
    explicit = bool(kubeconfig or context or os.environ.get("KUBECONFIG"))
    running = _running()
    try:
        config = load_config(kubeconfig, context)
    except ConfigError as error:
        if explicit or not running:
            raise BadInput(plain(str(error))) from error
        return _embedded(running)
    given = next((each for each in running if each.kubeconfig == kubeconfig), None)
    file = ("--kubeconfig", os.path.abspath(kubeconfig)) if kubeconfig else ()  # noqa: PTH100 - no link is followed
    if given is not None:
        return Target(config, given.name, run=given.run, options=file)
    doubt = ""
    if running and not explicit:
        others = " or ".join(each.option for each in running)
        doubt = f"an embedded cluster is running as well: {others}"
    name = f"context {config.context}" if config.context else "the cluster of this pod"
    options = (*file, *(("--context", config.context) if config.context else ()))
    return Target(config, plain(f"{name} ({config.server})"), doubt, options=options)


def option_for(run: Run) -> tuple[str, ...]:
    """Return the option with which a command finds the cluster of a run; none if none is needed.

    The answer is for a shell with the environment of this process.
    """
    try:
        found = choose(None, None)
    except BadInput:
        found = None
    return () if found is not None and found.run == run else ("--kubeconfig", run.kubeconfig)


def _running() -> list[_Running]:
    up = [
        _Running(
            f"the embedded cluster {files.name!r}", str(files.kubeconfig), f"--name {files.name}"
        )
        for files in sorted(all_clusters(), key=lambda files: files.name != DEFAULT_NAME)
        if files.state().kind == "running"
    ]
    return up + [
        _Running(_name_of(run), run.kubeconfig, f"--kubeconfig {run.kubeconfig}", run)
        for run in runs()
    ]


def _name_of(run: Run) -> str:
    jobs = ", ".join(map(str, run.jobs[:3])) + (", …" if len(run.jobs) > 3 else "")
    return plain(f"the cluster of `traincrew run`: {jobs}")


def _embedded(running: list[_Running]) -> Target:
    default = f"the embedded cluster {DEFAULT_NAME!r}"
    chosen = [one for one in running if one.name == default] or running
    if len(chosen) > 1:
        choices = "\n".join(f"  {one.option}  ({one.name})" for one in chosen)
        raise BadInput(f"several embedded clusters are running; choose one:\n{choices}")
    (one,) = chosen
    others = [other.option for other in running if other is not one]
    doubt = f"others are running as well: {', '.join(others)}" if others else ""
    options = ("--kubeconfig", one.kubeconfig)
    return Target(load_config(one.kubeconfig), one.name, doubt, one.run, options)
