"""The kinds of the API group `apps`."""

from functools import partial

from traincrew.local.apiserver.kinds.strategy import ResourceType, ScalePaths

__all__ = ["RESOURCES"]

_resource = partial(ResourceType, "apps", "v1", package=__name__)
_workload = partial(_resource, categories=("all",), status=True, generation="spec")
_scaled = partial(_workload, scale=ScalePaths(selector=".spec.selector"))

RESOURCES = (
    _resource("controllerrevisions", "ControllerRevision"),
    _workload("daemonsets", "DaemonSet", short_names=("ds",)),
    # Annotations count, because they are copied to the Deployment's ReplicaSets.
    _scaled(
        "deployments", "Deployment", short_names=("deploy",), generation="spec and annotations"
    ),
    _scaled("replicasets", "ReplicaSet", short_names=("rs",)),
    _scaled("statefulsets", "StatefulSet", short_names=("sts",)),
)
