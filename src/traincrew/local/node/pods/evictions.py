"""Eviction of a pod whose `emptyDir` volume grows beyond its `sizeLimit`.

Rule and message: the kubelet's `localStorageEviction` (`eviction_manager.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from traincrew.local.node.containers.memoryfiles import is_in_memory
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from traincrew.local.node.containers.handle import PodHandle

__all__ = ["EVICTED", "GRACE_SECONDS", "limited_volumes"]

Document = Mapping[str, Any]

EVICTED = "Evicted"
GRACE_SECONDS = 1.0
"""For the containers of an evicted pod, whatever its grace period is."""


@contextmanager
def limited_volumes(pod: PodHandle, spec: Document, evict: Callable[[str], None]) -> Iterator[None]:
    """Watch the sizes of a pod's volumes.

    Args:
        pod: With prepared volumes.
        spec: Of the pod.
        evict: Called with the message when a volume is too large.
    """
    watch = pod.context.memory
    directories = []
    for volume in spec.get("volumes") or ():
        limit = (volume.get("emptyDir") or {}).get("sizeLimit")
        size = 0 if limit is None else int(parse(limit))
        if size <= 0:
            continue
        message = f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
        directory = pod.volume(volume["name"])
        on_disk = not is_in_memory(volume)
        watch.watch_volume(directory, size, partial(evict, message), on_disk=on_disk)
        directories.append(directory)
    try:
        yield
    finally:
        for directory in directories:
            watch.forget_volume(directory)
