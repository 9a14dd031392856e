"""ChainerJobs for the tests of everything that runs or shows jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

IMAGE = "busybox:1"


def chainer_job(
    name: str,
    command: Sequence[str] = ("sleep", "600"),
    *,
    image: str = IMAGE,
    workers: int = 0,
    namespace: str | None = None,
    pod: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    policy: Mapping[str, Any] | None = None,
    backoff_limit: int | None = 0,
) -> dict[str, Any]:
    """Return a ChainerJob whose pods all run the same command.

    Args:
        name: Its name.
        command: What the containers run.
        image: Their image.
        workers: Size of the worker set `ws0`; without workers there is none.
        namespace: Its namespace.
        pod: More fields of the pod specs.
        container: More fields of the containers.
        policy: The run policy.
        backoff_limit: That of the master; None means the default.
    """
    main = {"name": "chainer", "image": image, "command": [*command], **(container or {})}
    template = {"spec": {**(pod or {}), "containers": [main]}}
    master: dict[str, Any] = {"template": template}
    if backoff_limit is not None:
        master["backoffLimit"] = backoff_limit
    spec: dict[str, Any] = {"master": master}
    if workers:
        spec["workerSets"] = {"ws0": {"replicas": workers, "template": template}}
    if policy:
        spec["runPolicy"] = dict(policy)
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": metadata,
        "spec": spec,
    }
