"""The objects an ElasticJob is made of, as documents.

Names, labels and arguments are the contract of TorchElastic's controller, which users' scripts and
dashboards rely on. For a job J with a type of replicas T (``Worker``), and i from 0:

    Service J-t-i    headless; its name leads to the pod of the same name
    Pod J-t-i
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.api.elasticjob import CONTAINER, ETCD, WORKER, ElasticJobSpec, main_container
from traincrew.plan import podtemplate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.api.elasticjob import ReplicaSpec
    from traincrew.api.meta import Owner

GROUP_NAME = "elastic.pytorch.org"
LABEL_GROUP = "group-name"
LABEL_NAME = "job-name"
LABEL_TYPE = "replica-type"
LABEL_INDEX = "replica-index"

RDZV_PORT = 29400
"""Where the first worker serves the rendezvous: torchrun's own default port."""
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Without it a worker that joins later waits for ever: the others go on using the store of the
round before (PyTorch issue 135712). The old etcd rendezvous does not share its store."""

Document = dict[str, Any]


class Place(NamedTuple):
    """Where one pod of a job belongs."""

    type: str
    """As the user wrote it."""
    number: int

    @property
    def key(self) -> str:
        """Unique within the job."""
        return f"{self.type.lower()}-{self.number}"

    def name(self, job: str) -> str:
        """Of the pod and of its Service."""
        return f"{job}-{self.key}"


HOST = Place(WORKER, 0)
"""Serves the rendezvous where there is no other."""


def places(spec: ElasticJobSpec) -> Iterator[Place]:
    """Every pod there should be, in order."""
    for name, replica in sorted(spec.replica_specs.items()):
        for index in range(replica.replicas):
            yield Place(name, index)


def selector(job: str, type_name: str) -> dict[str, str]:
    """Labels of all pods of a type."""
    return {LABEL_GROUP: GROUP_NAME, LABEL_NAME: job, LABEL_TYPE: type_name.lower()}


def labels(job: str, place: Place) -> dict[str, str]:
    """Labels of one pod and of its Service."""
    return {**selector(job, place.type), LABEL_INDEX: str(place.number)}


def restart_policy(replica: ReplicaSpec) -> str:
    """What happens to a pod that fails: that of the replicas, else the template's, else nothing."""
    return replica.restart_policy or replica.template.get("spec", {}).get("restartPolicy", "Never")


def launcher_arguments(owner: Owner, spec: ElasticJobSpec) -> list[str]:
    """What tells the launcher where to meet the others; the user's own arguments come later.

    A rendezvous that an earlier job of this name has closed is not met again: the store is another
    one, and so is the run, which has a part of the job's UID in its name.
    """
    endpoint, run = spec.rdzv_endpoint, owner.name
    if endpoint is None:
        endpoint, run = f"{HOST.name(owner.name)}:{RDZV_PORT}", f"{owner.name}-{owner.uid[:8]}"
    return [
        f"--rdzv_backend={spec.backend}",
        f"--rdzv_endpoint={endpoint}",
        f"--rdzv_id={spec.rdzv_id or run}",
        f"--nnodes={spec.smallest}:{spec.largest}",
    ]


def service(owner: Owner, place: Place) -> Document:
    """Makes the name of the pod known, also before it is ready: it is met while it starts."""
    mine = labels(owner.name, place)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": place.name(owner.name),
            "namespace": owner.namespace,
            "labels": mine,
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": {"clusterIP": "None", "selector": mine, "publishNotReadyAddresses": True},
    }


def pod(owner: Owner, spec: ElasticJobSpec, place: Place) -> Document:
    """The pod of a place."""
    replica = spec.replica_specs[place.type]
    policy = restart_policy(replica)
    template = podtemplate.plain(replica.template)
    template = podtemplate.with_labels(template, labels(owner.name, place))
    template = podtemplate.with_spec(
        template, restartPolicy="Never" if policy == "ExitCode" else policy
    )
    if place.type == WORKER or _names_launcher(template):
        template = _launched(template, launcher_arguments(owner, spec), spec)
    template = podtemplate.with_last_words(template)
    kept = {
        name: template["metadata"][name]
        for name in ("labels", "annotations", "finalizers")
        if template["metadata"].get(name)
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **kept,
            "name": place.name(owner.name),
            "namespace": owner.namespace,
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": template["spec"],
    }


def _names_launcher(template: Document) -> bool:
    return any(container.get("name") == CONTAINER for container in template["spec"]["containers"])


def _launched(template: Document, arguments: list[str], spec: ElasticJobSpec) -> Document:
    """A pod whose launcher knows where to meet the others."""
    containers = list(template["spec"]["containers"])
    place = main_container(template)
    container = {**containers[place], "args": [*arguments, *(containers[place].get("args") or [])]}
    if spec.backend != ETCD:
        container = podtemplate.add_env(container, OWN_STORE)
    containers[place] = container
    return podtemplate.with_spec(template, containers=containers)
