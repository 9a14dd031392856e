"""The kinds of the API group `batch`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

_workload = partial(
    ResourceType,
    "batch",
    "v1",
    categories=("all",),
    status=True,
    generation="spec",
    package=__name__,
)

RESOURCES = (
    _workload("cronjobs", "CronJob", short_names=("cj",)),
    _workload("jobs", "Job", orphan_by_default=True),
)
