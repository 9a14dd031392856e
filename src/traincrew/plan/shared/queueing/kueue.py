"""The names of Kueue's API that the operator uses (``kueue.x-k8s.io/v1beta2``).

Source: `apis/kueue/v1beta2` and `pkg/controller/constants` of Kueue 0.19.
"""

from __future__ import annotations

GROUP = "kueue.x-k8s.io"
VERSION = "v1beta2"
API_VERSION = f"{GROUP}/{VERSION}"
WORKLOAD = "Workload"
WORKLOADS = f"workloads.{GROUP}"
"""What kubectl calls them: ``workloads`` alone may mean those of ``scheduling.k8s.io``."""

# Labels of jobs.
QUEUE = f"{GROUP}/queue-name"
PRIORITY_CLASS = f"{GROUP}/priority-class"
MAX_SECONDS = f"{GROUP}/max-exec-time-seconds"

PREBUILT = f"{GROUP}/prebuilt-workload-name"
"""Label, or annotation if the name is longer than a label may be, of the copy of a job that
MultiKueue makes on another cluster: the Workload that it has made there."""

# Annotation of jobs, and of Workloads that replace others.
ELASTIC = f"{GROUP}/elastic-job"

# Of Workloads.
JOB_UID = f"{GROUP}/job-uid"
IN_USE = f"{GROUP}/resource-in-use"
"""Finalizer: the quota of a Workload is in use until it is removed."""

REPLACES = f"{GROUP}/workload-slice-replacement-for"
"""Annotation: namespace and name of the Workload that one replaces, with a slash."""

# Of pods.
POD_SET = f"{GROUP}/podset"
OF_WORKLOAD = f"{GROUP}/workload"
TOPOLOGY_GATE = f"{GROUP}/topology"
REQUIRED_TOPOLOGY = f"{GROUP}/podset-required-topology"
PREFERRED_TOPOLOGY = f"{GROUP}/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY = f"{GROUP}/podset-unconstrained-topology"
SLICE_TOPOLOGY = f"{GROUP}/podset-slice-required-topology"
SLICE_SIZE = f"{GROUP}/podset-slice-size"
POD_SET_GROUP = f"{GROUP}/podset-group-name"

# Conditions of Workloads.
QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
EVICTED = "Evicted"
REQUEUED = "Requeued"
PODS_READY = "PodsReady"
FINISHED = "Finished"

# Reasons.
PENDING = "Pending"
ON_HOLD = "OnHold"
PREEMPTED = "Preempted"
NODE_FAILURES = "NodeFailures"
WAIT_FOR_START = "WaitForStart"
WAIT_FOR_RECOVERY = "WaitForRecovery"
STARTED = "Started"
RECOVERED = "Recovered"
OUT_OF_SYNC = "OutOfSync"
SLICE_REPLACED = "WorkloadSliceReplaced"
WAITS_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"

MANAGED = "traincrew.dev/job-kind"
"""Label of Workloads of the operator: the kind of the job, in lower case."""
ADMISSION = "traincrew.dev/queue-admission"
"""Annotation of what makes pods: a hash of what the admission adds to them."""
