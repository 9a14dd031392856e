"""The kubelet of the embedded cluster: pods are processes of this machine.

`Node` runs the pods bound to its virtual nodes; it reaches the cluster through the API only, and
the API server reaches it by `Node.backend`. Containers are started by a small fork server (see
`sandbox`), each under a shim of its own that outlives everything else, so that pods survive a
restart of the control plane. The status of a pod is computed by pure functions (`records.status`);
one table lists what a pod may ask for without effect (`pods.unsupported`).
"""

from traincrew.local.node.cleanup import end_pods
from traincrew.local.node.machine.capabilities import (
    Capabilities,
    Capability,
    NamespacesUnavailableError,
    count_gpus,
    detect,
)
from traincrew.local.node.machine.gpus import machine_gpus
from traincrew.local.node.machine.specs import HostMount, NodeSpec, PodOptions
from traincrew.local.node.network.addresses import NetworksTakenError
from traincrew.local.node.node import Node
from traincrew.local.node.runtime.written import Collected, Written
from traincrew.local.node.volumes.claims import ClaimContents
from traincrew.local.node.volumes.shared_memory import nodes as running_nodes
from traincrew.local.node.volumes.shared_memory import sweep as sweep_memory

__all__ = [
    "Capabilities",
    "Capability",
    "ClaimContents",
    "Collected",
    "HostMount",
    "NamespacesUnavailableError",
    "NetworksTakenError",
    "Node",
    "NodeSpec",
    "PodOptions",
    "Written",
    "count_gpus",
    "detect",
    "end_pods",
    "machine_gpus",
    "running_nodes",
    "sweep_memory",
]
