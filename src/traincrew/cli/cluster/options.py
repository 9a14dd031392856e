"""Options of a cluster."""

from __future__ import annotations

from typing import Literal

import msgspec


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a cluster; stored, so that a restart uses the same."""

    nodes: int = 1
    gpus: int | None = None
    images: tuple[str, ...] = ()
    image_source: Literal["auto", "environment", "image"] = "auto"
    sandbox: Literal["auto", "namespaces", "bare"] = "auto"
    scheduler_names: tuple[str, ...] = ()
    controller_config_file: str | None = None
    operator: bool = True
    kinds: bool = True
    """Whether the training kinds are installed; the operator needs them."""
    progress: bool = True
    verbose: bool = False
    admin_in_pods: bool = False
    directory: str = "/"
    """Working directory of `up`: relative `hostPath`s are relative to it."""
