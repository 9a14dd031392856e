"""Reads which place a job has in its queue, as Kueue's visibility API says.

Source: ``apis/visibility/v1beta2/types.go`` of Kueue 0.19. It is a part of Kueue that may be
switched off, and that not everybody may ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import field

from traincrew.cli.jobview.objects import QueuePlace
from traincrew.engine.errors import ApiError, BadAnswerError, NotFoundError, UnreachableError
from traincrew.engine.objects import ObjectMeta, View
from traincrew.engine.resources import Resource

if TYPE_CHECKING:
    from traincrew.cli.display.objects import Queue
    from traincrew.engine.client import Client

__all__ = ["place_in_queue"]

_QUEUES = tuple(
    Resource("visibility.kueue.x-k8s.io", version, "localqueues", "LocalQueue")
    for version in ("v1beta2", "v1beta1")
)


class _Pending(View, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    position_in_cluster_queue: int = 0
    position_in_local_queue: int = 0


class _Summary(View, frozen=True, gc=False, kw_only=True):
    items: list[_Pending] = field(default_factory=list)


async def place_in_queue(client: Client, queue: Queue, namespace: str) -> QueuePlace | None:
    """Return the place of a job that waits; None if nobody says, or if it does not wait."""
    for resource in _QUEUES:
        try:
            found = await client.get(
                resource, queue.name, namespace, subresource="pendingworkloads"
            )
            waiting = msgspec.convert(found, _Summary).items
        except NotFoundError:
            continue
        except (ApiError, BadAnswerError, UnreachableError, msgspec.ValidationError):
            return None
        for each in waiting:
            if each.metadata.name == queue.workload:
                return QueuePlace(each.position_in_local_queue, each.position_in_cluster_queue)
        return None
    return None
