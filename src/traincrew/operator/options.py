"""Options of the operator process."""

from __future__ import annotations

import os
import socket
from importlib.metadata import version

from msgspec import Struct, field

from traincrew.plan.shared.schedulers import Mode  # noqa: TC001 - decoded
from traincrew.plan.shared.templates.accelerators import NO_ACCELERATORS, Accelerators

VERSION = version("traincrew")
HELPER_IMAGE = f"traincrew/helper:{VERSION}"
GIT_IMAGE = f"traincrew/git:{VERSION}"
LEASE_NAME = "chainer-operator"
WORKERS = 64
PROGRESS_SECRET = "traincrew-progress-ca"  # noqa: S105 - a name


def identity(pod: str | None = None) -> str:
    """Return the identity of this process in elections: its pod, or its host, and its number.

    The number keeps processes apart that share a name, as on a host's network or in a shell.
    """
    return f"{pod or socket.gethostname()}-{os.getpid()}"


class ProgressOptions(Struct, frozen=True, kw_only=True):
    """Options of the endpoint.

    Attributes:
        host: Address to listen on; with a Service, the address of this pod.
        port: Port to listen on, and of the Service.
        namespace: Namespace of the Secret and of the Service.
        secret: Name of the Secret with the CA.
        service: Name of the Service by which pods reach the leader; without one they use `host`.
        metrics: Names of reported metrics that are shown to Prometheus as well.
    """

    host: str
    port: int
    namespace: str
    secret: str = PROGRESS_SECRET
    service: str = ""
    metrics: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The host name or address by which pods reach the endpoint."""
        return f"{self.service}.{self.namespace}.svc" if self.service else self.host

    @property
    def url(self) -> str:
        """The URL by which pods reach the endpoint."""
        host = f"[{self.name}]" if ":" in self.name else self.name
        return f"https://{host}:{self.port}"


class OperatorOptions(Struct, frozen=True, kw_only=True):
    """Options of the operator; the defaults suit a single operator for the whole cluster.

    Attributes:
        namespace: Only jobs of this namespace; all if None.
        kinds: Kinds of other projects that are served besides those of this one.
        helper_image: Image of the init containers that are added to distributed pods. Has kubectl
            at /usr/local/bin/kubectl and a POSIX shell.
        git_image: Image of the init containers that fetch code for MPIClusters. Has git, ssh and a
            POSIX shell.
        accelerators: What containers that use an accelerator are given.
        gang_scheduling: The scheduler that places the pods of a job together; by default one that
            the cluster has.
        workers: Maximum number of jobs reconciled at the same time. They mostly wait for the API
            server, which handles concurrent requests faster than one after another.
        leader_elect: Acquire a Lease before reconciling, so that two operators are never active at
            the same time.
        lease_namespace: Namespace of the Lease; that of the configuration if None.
        lease_name: Name of the Lease.
        lease_duration: Seconds without a renewal after which another operator takes over.
        renew_deadline: Seconds without a successful renewal after which the leader gives up; less
            than `lease_duration`. The difference is the time a slow write has left to arrive.
        retry_period: Seconds between renewals; less than `renew_deadline`.
        identity: Identity in the election, unique to this process.
        metrics_address: ``host:port`` of metrics and health endpoints; none if None.
        metrics_secure_address: ``host:port`` of the metrics over HTTPS, for clients whose token
            may read them; `metrics_address` then serves the health endpoints only.
        progress: Where training programs report their progress; nowhere if None.
    """

    namespace: str | None = None
    kinds: tuple[str, ...] = ()
    helper_image: str = HELPER_IMAGE
    git_image: str = GIT_IMAGE
    accelerators: Accelerators = NO_ACCELERATORS
    gang_scheduling: Mode = "auto"
    workers: int = WORKERS
    leader_elect: bool = True
    lease_namespace: str | None = None
    lease_name: str = LEASE_NAME
    lease_duration: float = 5.0
    renew_deadline: float = 4.0
    retry_period: float = 1.0
    identity: str = field(default_factory=identity)
    metrics_address: str | None = None
    metrics_secure_address: str | None = None
    progress: ProgressOptions | None = None
