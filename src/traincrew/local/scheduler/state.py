"""The scheduler's state: nodes, their used resources, and the pods on them.

It is updated by watch events and by the scheduler's own assignments, which count before they are
in the cache. Plain data, no I/O.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from traincrew.engine.objects import controller_of
from traincrew.local.controllers.common import find_condition
from traincrew.local.scheduler.groups import membership
from traincrew.local.scheduler.quantity import amount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.engine.objects import AnyObject
    from traincrew.local.scheduler.groups import GroupKey

NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


class PodInfo(Struct, frozen=True):
    """A pod and the resources it uses.

    Attributes:
        pod: The pod.
        requests: Resource name -> amount.
        ports: Its host ports, as (protocol, address, number).
        owner: UID of its controller, or empty.
        group: The group it names, if any.
    """

    pod: AnyObject
    requests: dict[str, int]
    ports: frozenset[tuple[str, str, int]]
    owner: str = ""
    group: GroupKey | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the pod."""
        return self.pod.metadata.labels

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return self.pod.metadata.namespace


class NodeState(Struct):
    """A node and its used resources."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, Any]] = field(default_factory=list)
    unschedulable: bool = False
    allocatable: dict[str, int] = field(default_factory=dict)
    exists: bool = False
    used: dict[str, int] = field(default_factory=dict)
    pods: dict[str, PodInfo] = field(default_factory=dict)
    owners: Counter[str] = field(default_factory=Counter)
    """Number of pods by UID of their controller."""

    def free(self, resource: str) -> int:
        """Return the free amount of a resource."""
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)

    def add(self, info: PodInfo) -> None:
        """Add a pod."""
        self.pods[info.pod.metadata.uid] = info
        for resource, number in info.requests.items():
            self.used[resource] = self.used.get(resource, 0) + number
        self.owners[info.owner] += 1

    def remove(self, uid: str) -> PodInfo | None:
        """Remove a pod, and return it."""
        info = self.pods.pop(uid, None)
        if info is not None:
            for resource, number in info.requests.items():
                self.used[resource] -= number
            self.owners[info.owner] -= 1
            if not self.owners[info.owner]:
                del self.owners[info.owner]
        return info


class ClusterState:
    """All nodes, and where every pod is."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeState] = {}
        self._where: dict[str, str] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        """Labels of each namespace, for affinity terms that select by them."""
        self._repelling: dict[str, PodInfo] = {}
        self._groups: dict[GroupKey, set[str]] = {}

    def nodes(self) -> list[NodeState]:
        """Return the nodes that exist, by name."""
        return sorted(
            (node for node in self._nodes.values() if node.exists), key=lambda node: node.name
        )

    def pods(self) -> list[tuple[NodeState, PodInfo]]:
        """Return every placed pod and its node."""
        return [(node, info) for node in self.nodes() for info in node.pods.values()]

    def repelling(self) -> list[tuple[NodeState, PodInfo]]:
        """Return every placed pod with required anti-affinity, and its node."""
        return [(self._nodes[self._where[uid]], info) for uid, info in self._repelling.items()]

    def standing(self, group: GroupKey) -> int:
        """Return the number of pods of a group on nodes; those being deleted do not count."""
        return len(self._groups.get(group, ()))

    def used_by(self, group: GroupKey, resource: str) -> int:
        """Return how much of a resource the pods of a group on nodes use."""
        return sum(
            self._nodes[self._where[uid]].pods[uid].requests.get(resource, 0)
            for uid in self._groups.get(group, ())
        )

    def set_node(self, node: AnyObject) -> bool:
        """Store a node; return whether anything changed that affects scheduling."""
        state = self._state(node.metadata.name)
        fresh = (
            dict(node.metadata.labels),
            taints_of(node),
            bool(node.spec.get("unschedulable")),
            {
                resource: amount(resource, value)
                for resource, value in (node.status.get("allocatable") or {}).items()
            },
            True,
        )
        before = (state.labels, state.taints, state.unschedulable, state.allocatable, state.exists)
        if fresh == before:
            return False
        state.labels, state.taints, state.unschedulable, state.allocatable, state.exists = fresh
        return True

    def drop_node(self, name: str) -> None:
        """Remove a node; its pods stay in case it comes back."""
        state = self._nodes.get(name)
        if state is not None:
            state.exists = False
            if not state.pods:
                del self._nodes[name]

    def set_pod(self, pod: AnyObject, node_name: str | None = None) -> None:
        """Add a pod to the node where it is, or is about to be.

        Args:
            pod: The pod; one that has finished uses no resources.
            node_name: Overrides `spec.nodeName`: an assignment that is not in the cache yet.
        """
        uid = pod.metadata.uid
        where = node_name or pod.spec.get("nodeName")
        if pod.status.get("phase") in {"Succeeded", "Failed"}:
            self.drop_pod(uid)
        elif where:
            self.drop_pod(uid)
            info = info_of(pod)
            self._state(where).add(info)
            self._where[uid] = where
            affinity = (pod.spec.get("affinity") or {}).get("podAntiAffinity") or {}
            if affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
                self._repelling[uid] = info
            if info.group is not None and pod.metadata.deletion_timestamp is None:
                self._groups.setdefault(info.group, set()).add(uid)

    def drop_pod(self, uid: str) -> None:
        """Remove a pod."""
        where = self._where.pop(uid, None)
        if where is not None:
            info = self._nodes[where].remove(uid)
            self._repelling.pop(uid, None)
            if info is not None and info.group in self._groups:
                self._groups[info.group].discard(uid)
                if not self._groups[info.group]:
                    del self._groups[info.group]

    def is_placed(self, uid: str) -> bool:
        """Return whether a pod is on a node."""
        return uid in self._where

    def _state(self, name: str) -> NodeState:
        state = self._nodes.get(name)
        if state is None:
            state = self._nodes[name] = NodeState(name)
        return state


def taints_of(node: AnyObject) -> list[dict[str, Any]]:
    """Return its taints, and the one of upstream's node controller for a node that is not ready."""
    taints = [dict(taint) for taint in node.spec.get("taints") or ()]
    ready = find_condition(node.status.get("conditions"), "Ready")
    if ready is not None and ready.get("status") != "True":
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})
    return taints


def info_of(pod: AnyObject) -> PodInfo:
    """Return a pod with the resources it uses."""
    ports = {
        (
            port.get("protocol", "TCP"),
            port.get("hostIP") or "0.0.0.0",  # noqa: S104 - how manifests say "every address"
            int(port["hostPort"]),
        )
        for container in _running(pod.spec)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
    owner = controller_of(pod)
    return PodInfo(
        pod,
        requests_of(pod.spec),
        frozenset(ports),
        owner.uid if owner is not None else "",
        membership(pod),
    )


def _running(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the containers that run at the same time: sidecars, and those of the pod."""
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container
    yield from spec.get("containers") or ()


def requests_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return a pod's requests: containers and sidecars, or the peak during init if that is more.

    Rules: `k8s.io/component-helpers/resource.PodRequests`; a limit without a request is a request.

    Raises:
        ValueError: A quantity cannot be read.
    """
    running: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(running, _requests(container))
    sidecars: dict[str, int] = {}
    init_peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(running, _requests(container))
            _add(sidecars, _requests(container))
            _take_max(init_peak, sidecars)
        else:
            step = dict(sidecars)
            _add(step, _requests(container))
            _take_max(init_peak, step)
    _take_max(running, init_peak)
    running.update(_requests(spec))
    _add(running, _amounts(spec.get("overhead")))
    return {resource: number for resource, number in running.items() if number > 0}


def _requests(holder: Mapping[str, Any]) -> dict[str, int]:
    resources = holder.get("resources") or {}
    return {**_amounts(resources.get("limits")), **_amounts(resources.get("requests"))}


def _amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    return {resource: amount(resource, value) for resource, value in (quantities or {}).items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, number in more.items():
        total[resource] = total.get(resource, 0) + number


def _take_max(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for resource, number in floor.items():
        total[resource] = max(total.get(resource, 0), number)
