"""The kinds of the API group `metrics.k8s.io`: what the node measures, which nothing stores."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType
from traincrew.local.apiserver.schema import ObjectSchema

__all__ = ["RESOURCES"]

_measured = partial(
    ResourceType,
    "metrics.k8s.io",
    "v1beta1",
    verbs=("get", "list"),
    package=__name__,
)


def _node_schema() -> ObjectSchema:
    from .node_metrics import load_schema

    return load_schema()


def _pod_schema() -> ObjectSchema:
    from .pod_metrics import load_schema

    return load_schema()


RESOURCES = (
    _measured("nodes", "NodeMetrics", namespaced=False, measures="nodes", load_schema=_node_schema),
    _measured("pods", "PodMetrics", measures="pods", load_schema=_pod_schema),
)
