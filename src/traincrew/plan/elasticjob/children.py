"""The children of an ElasticJob, as documents.

Names, labels and arguments are the contract of TorchElastic's controller, which users' scripts and
dashboards rely on. For a job J with a replica type T (``Worker``), and i from 0:

    Service J-t-i    headless; its name resolves to the pod of the same name
    Pod J-t-i
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.elasticjob.types import (
    CONTAINER,
    ETCD,
    WORKER,
    ElasticJobSpec,
    main_container,
)
from traincrew.plan.shared import reporting
from traincrew.plan.shared.replicas import children
from traincrew.plan.shared.replicas.places import Labels, Place, Replicas
from traincrew.plan.shared.templates import podtemplate

if TYPE_CHECKING:
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint

LABELS = Labels(
    # The Job controller of Kubernetes uses the second one, too.
    mark=("group-name", "elastic.pytorch.org"),
    job="job-name",
    type="replica-type",
    index="replica-index",
)

RDZV_PORT = 29400
"""Port at which the first worker serves the rendezvous: torchrun's own default."""
UNSHARED_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Without it, a worker that joins later waits forever: the others keep using the store of the
previous round (PyTorch issue 135712). The old etcd rendezvous does not share its store."""

Document = dict[str, Any]


RENDEZVOUS_HOST = Place(WORKER, 0)
"""The worker that serves the rendezvous, unless the job uses an external one."""


def replicas(spec: ElasticJobSpec) -> dict[str, Replicas]:
    """Return the pods that a job asks for, by type."""
    return {
        name: Replicas(each.replicas, each.template, each.restart_policy)
        for name, each in spec.replica_specs.items()
    }


def labels(job: str, place: Place) -> dict[str, str]:
    """Return the labels of one pod and of its Service."""
    return LABELS.of(job, place)


def launcher_arguments(owner: Owner, spec: ElasticJobSpec) -> list[str]:
    """Return the launcher's rendezvous arguments; the user's own arguments come after them.

    A rendezvous that an earlier job of this name has closed is not joined again: the store is a
    new one, and so is the run ID, which contains a part of the job's UID.
    """
    endpoint, run = spec.rdzv_endpoint, owner.name
    if endpoint is None:
        endpoint, run = (
            f"{RENDEZVOUS_HOST.name(owner.name)}:{RDZV_PORT}",
            f"{owner.name}-{owner.uid[:8]}",
        )
    return [
        f"--rdzv_backend={spec.backend}",
        f"--rdzv_endpoint={endpoint}",
        f"--rdzv_id={spec.rdzv_id or run}",
        f"--nnodes={spec.smallest}:{spec.largest}",
    ]


def is_needed_to_start(spec: ElasticJobSpec, place: Place) -> bool:
    """Return whether pods need the Service of a place in order to start training.

    Workers find each other through the rendezvous. If one of them serves it, it is also the one
    that the others connect to afterwards: torchrun gives rank 0 to the first name in the alphabet.
    With an external rendezvous that may be any of them. Other types of replicas may serve anything.
    """
    return place.type != WORKER or place == RENDEZVOUS_HOST or not spec.hosted


def service(owner: Owner, place: Place) -> Document:
    """Return the Service that publishes a pod's name, also before the pod is ready.

    The rendezvous takes place while the pods start.
    """
    return children.service(owner, place, labels(owner.name, place), publishNotReadyAddresses=True)


def pod(
    owner: Owner, spec: ElasticJobSpec, place: Place, endpoint: Endpoint | None = None
) -> Document:
    """Return the pod of a place; its launcher's programs report their progress to an endpoint."""
    replica = replicas(spec)[place.type]
    template = podtemplate.plain(replica.template)
    template = podtemplate.with_labels(template, labels(owner.name, place))
    template = podtemplate.with_spec(template, restartPolicy=replica.pod_policy)
    template = podtemplate.with_cluster_names(template)
    if place.type == WORKER or _names_launcher(template):
        template = _with_launcher_arguments(template, launcher_arguments(owner, spec), spec)
        template = reporting.with_reporting(template, endpoint, owner, main_container(template))
    return children.pod(owner, place, podtemplate.with_log_fallback(template))


def _names_launcher(template: Document) -> bool:
    return any(container.get("name") == CONTAINER for container in template["spec"]["containers"])


def _with_launcher_arguments(
    template: Document, arguments: list[str], spec: ElasticJobSpec
) -> Document:
    """Add the rendezvous arguments to the launcher."""
    containers = list(template["spec"]["containers"])
    place = main_container(template)
    container = {**containers[place], "args": [*arguments, *(containers[place].get("args") or [])]}
    if spec.backend != ETCD:
        container = podtemplate.add_env(container, UNSHARED_STORE)
    containers[place] = container
    return podtemplate.with_spec(template, containers=containers)
