"""The kubelet of the embedded cluster: pods are processes of this machine.

`Node` runs the pods bound to its virtual nodes. Containers are started by a small fork server (see
`sandbox`), each under a shim of its own that outlives everything else, so that pods survive a
restart of the control plane. What a pod shows of itself is computed by pure functions (`status`),
what it asks for and does not get is told by one table (`unsupported`).
"""

from traincrew.local.node.capabilities import Capabilities, Capability, count_gpus, detect
from traincrew.local.node.node import Node
from traincrew.local.node.specs import NodeSpec

__all__ = ["Capabilities", "Capability", "Node", "NodeSpec", "count_gpus", "detect"]
