"""A real Kubernetes cluster on this machine: see docs/design/real-cluster.md."""

from hack.cluster.cluster import Options, RealCluster
from hack.cluster.preflight import Unavailable, missing

__all__ = ["Options", "RealCluster", "Unavailable", "missing"]
