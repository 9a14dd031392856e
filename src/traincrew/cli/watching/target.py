"""Chooses the cluster of a command: by kubectl's rules, else the running embedded one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from traincrew.cli.cluster.files import ClusterFiles, all_clusters
from traincrew.cli.display.text import plain
from traincrew.cli.errors import BadInput
from traincrew.engine.config import load_config
from traincrew.engine.errors import ConfigError

if TYPE_CHECKING:
    from traincrew.engine.config import ClientConfig

__all__ = ["Target", "choose"]


class Target(NamedTuple):
    """A cluster.

    Attributes:
        config: How to reach it.
        name: What to call it in messages.
        doubt: Which other cluster may have been meant, and how to choose it; mostly empty.
    """

    config: ClientConfig
    name: str
    doubt: str = ""


def choose(kubeconfig: str | None, context: str | None) -> Target:
    """Choose a cluster.

    The sources, in this order: the given kubeconfig or context; KUBECONFIG; the service account of
    a pod; ``~/.kube/config``; the embedded cluster that is running.

    Raises:
        BadInput: There is none, or the choice is not clear; the message says how to choose.
    """
    explicit = bool(kubeconfig or context or os.environ.get("KUBECONFIG"))
    running = [] if explicit else _running()
    try:
        config = load_config(kubeconfig, context)
    except ConfigError as error:
        if explicit or not running:
            raise BadInput(plain(str(error))) from error
        return _embedded(running)
    doubt = ""
    if running:
        paths = " or ".join(f"--kubeconfig {files.kubeconfig}" for files in running)
        doubt = f"an embedded cluster is running as well: {paths}"
    name = f"context {config.context}" if config.context else "the cluster of this pod"
    return Target(config, plain(f"{name} ({config.server})"), doubt)


def _running() -> list[ClusterFiles]:
    return [files for files in all_clusters() if files.state().kind == "running"]


def _embedded(running: list[ClusterFiles]) -> Target:
    default = ClusterFiles("default").name
    chosen = [files for files in running if files.name == default] or running
    if len(chosen) > 1:
        paths = "\n".join(f"  --kubeconfig {files.kubeconfig}" for files in chosen)
        raise BadInput(f"several embedded clusters are running; choose one:\n{paths}")
    (files,) = chosen
    config = load_config(str(files.kubeconfig))
    others = [f"--kubeconfig {other.kubeconfig}" for other in running if other is not files]
    doubt = f"others are running as well: {', '.join(others)}" if others else ""
    return Target(config, f"the embedded cluster {files.name!r}", doubt)
