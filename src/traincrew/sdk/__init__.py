"""traincrew from Python: a cluster for programs, notebooks and tests.

The names below are the public interface, exported by `traincrew` itself; everything else may change
with any release. The package uses the parts below it as the commands do, and no part uses it.
"""

from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.sdk.apiserver import ApiServer
from traincrew.sdk.client import ClusterClient
from traincrew.sdk.cluster import LocalCluster
from traincrew.sdk.runs import JobOutcome, Outcome, PodOutcome, run

__all__ = [
    "ApiError",
    "ApiServer",
    "BadInput",
    "ClusterClient",
    "CommandFailed",
    "JobOutcome",
    "LocalCluster",
    "NotFoundError",
    "Outcome",
    "PodOutcome",
    "run",
]
