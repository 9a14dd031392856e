"""What can be chosen when the operator is started."""

from __future__ import annotations

import os
import socket
from importlib.metadata import version

from msgspec import Struct, field

VERSION = version("traincrew")
HELPER_IMAGE = f"traincrew/helper:{VERSION}"
LEASE_NAME = "chainer-operator"


def _identity() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"


class OperatorOptions(Struct, frozen=True, kw_only=True):
    """Options of the operator; the defaults suit a single operator for the whole cluster.

    Attributes:
        namespace: Only jobs of this namespace; all when None.
        helper_image: Image of the init steps that are added to distributed pods. Has kubectl at
            /usr/local/bin/kubectl and a POSIX shell.
        workers: How many jobs are looked at at the same time. They mostly wait for the API server,
            which needs less time for many requests when it has several of them at once.
        leader_elect: Take part in the election for a Lease before doing anything, so that two
            operators never act at once.
        lease_namespace: Where the Lease is; the namespace of the configuration when None.
        lease_name: Name of the Lease.
        identity: Unique to this process.
        metrics_address: ``host:port`` of metrics and health; none when None.
    """

    namespace: str | None = None
    helper_image: str = HELPER_IMAGE
    workers: int = 64
    leader_elect: bool = True
    lease_namespace: str | None = None
    lease_name: str = LEASE_NAME
    identity: str = field(default_factory=_identity)
    metrics_address: str | None = None
