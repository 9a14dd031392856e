"""The permitted differences between transcripts of the embedded and a real cluster."""

from __future__ import annotations

import re
from typing import NamedTuple

from .manifests import OPEN_MPI_WARNING


class Finding(NamedTuple):
    """A line that only one of the clusters has."""

    section: str
    side: str
    """`embedded` or `real`."""
    line: str


class Difference(NamedTuple):
    """An intended difference.

    Attributes:
        name: A short name, unique.
        why: The reason, for readers of docs/design/differences.md.
        section: Pattern of the titles of the sections that have it.
        embedded: Pattern of lines that only the embedded cluster has; None if there are none.
        real: Pattern of lines that only the real cluster has; None if there are none.
        scenarios: Pattern of the names of scenarios.
        sometimes: It depends on timing, so it need not be found.
    """

    name: str
    why: str
    section: str
    embedded: str | None = None
    real: str | None = None
    scenarios: str = ".*"
    sometimes: bool = False

    def covers(self, scenario: str, finding: Finding) -> bool:
        """Return whether a line belongs to this difference. Patterns must match the whole line."""
        pattern = self.embedded if finding.side == "embedded" else self.real
        return (
            pattern is not None
            and re.fullmatch(self.scenarios, scenario) is not None
            and re.fullmatch(self.section, finding.section) is not None
            and re.fullmatch(pattern, finding.line) is not None
        )


_LOST = r"spec\.tolerations\[node\.kubernetes\.io/(not-ready|unreachable)\]\.tolerationSeconds"

_PULLED = (
    r"Normal Pulled \(.*\): (Container image \".*\" already present on machine and can be accessed"
    r" by the pod|Successfully pulled image .*)"
)

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "time on a lost node",
        "Pods stay on a node that is lost for five minutes, the usual time; the real cluster of"
        " these suites is set to 8 seconds, so that nobody has to wait.",
        section="Pod .*, as stored",
        embedded=rf"{_LOST}: 300",
        real=rf"{_LOST}: 8",
    ),
    Difference(
        "user of a container",
        "An image names the user its programs run as; an environment has none, pods run as the user"
        " of the cluster.",
        section="Pod .*, last status",
        real=r"(c|initC)ontainerStatuses\[.*\]\.user\.linux\..*",
    ),
    Difference(
        "memory of a pod",
        "With cgroups of version 1 the kubelet of 1.36 reports `no limit` as a number.",
        section="Pod .*, last status",
        real=r"resources(: \{\}|\.limits\.memory: 9007199254740988Ki)",
    ),
    Difference(
        "what an image name stands for",
        "There always an image; here an environment or an image, and the event says which.",
        section="Pod .*, events of kubelet",
        embedded=rf"{_PULLED}\. Using (environment|image) .*",
        real=rf"{_PULLED}( x\d+)?",
    ),
    Difference(
        "why an image cannot be had",
        "On a cluster a registry refuses. Here the message also says how to define an environment"
        " for the image.",
        section="Pod .*, events of kubelet",
        embedded="Warning Failed .*: Failed to pull image .*: no environment is defined for it,.*",
        real="Warning Failed .*: Failed to pull image .*: failed to pull and unpack image .*",
    ),
    Difference(
        "why a program cannot be started",
        "containerd and runc name each layer that the message went through. What went wrong is the"
        " end of it on both clusters.",
        section="ChainerJob .*|Pod .*",
        embedded=r".*exec: \"/no/such/program\": stat /no/such/program: no such file or directory",
        real=r".*failed to create containerd task: .*exec: \"/no/such/program\":"
        " stat /no/such/program: no such file or directory",
        scenarios="program-not-found",
    ),
    Difference(
        "preemption and claims",
        "The scheduler of the embedded cluster takes no pod's place away and knows no devices to"
        " claim, so it has nothing to say about them.",
        section="ChainerJob .*|Pod .*",
        embedded=r".*0/2 nodes are available: 2 Insufficient cpu\.",
        real=r".*0/2 nodes are available: 2 Insufficient cpu\. no new claims to deallocate,"
        r" preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling\.",
        scenarios="unschedulable",
    ),
    Difference(
        "end of a sandbox",
        "The kubelet's last words on a pod that is deleted are said before or after its sandbox is"
        " taken down, whichever comes first.",
        section="Pod .*, last status",
        embedded=r"conditions\[PodReadyToStartContainers\]\.status: .*|podIPs?(\[0\]\.ip)?: <ip>",
        real=r"conditions\[PodReadyToStartContainers\]\.status: .*|podIPs?(\[0\]\.ip)?: <ip>",
        scenarios="image-not-found|mxjob-.*|mpi-.*",
        sometimes=True,
    ),
    Difference(
        "late ConfigMap or Secret",
        "A kubelet that has not seen a ConfigMap or Secret yet says so and tries again.",
        section="Pod .*, events of kubelet",
        real="Warning FailedMount: MountVolume.SetUp failed for volume .* : failed to sync"
        " (configmap|secret) cache: timed out waiting for the condition",
        sometimes=True,
    ),
    Difference(
        "volumes of a pod that is deleted",
        "Garbage collection deletes the ConfigMap and the Secret of a job with its pods, in any"
        " order. A kubelet that updates a volume after its source is gone says so.",
        section="Pod .*, events of kubelet",
        real=r"Warning FailedMount: MountVolume.SetUp failed for volume .* : (configmap|secret)"
        r" \".+\" not found( x\d+)?",
        scenarios="(.*-)?deleted",
        sometimes=True,
    ),
    Difference(
        "a pod that is deleted before it has a node",
        "A scheduler that has a pod at hand when it is deleted says so, or is refused the binding"
        " (schedule_one.go and the binding's storage in Kubernetes).",
        section="Pod .*, events of default-scheduler",
        real="Warning FailedScheduling: (skip schedule deleting pod: .*|.*is being deleted, cannot"
        " be assigned to a host.*)",
        sometimes=True,
    ),
    Difference(
        "an EndpointSlice that changes meanwhile",
        "The controller of EndpointSlices reports an update that was refused because its own view"
        " was old, and tries again.",
        section="Service .*, events of endpoint-slice-controller",
        real="Warning FailedToUpdateEndpointSlices: Error updating Endpoint Slices for Service .*",
        sometimes=True,
    ),
    Difference(
        "a node's rights come late",
        "The API server lets a node ask for tokens of its pods only, and learns by a watch of its"
        " own which those are; a kubelet that is faster is refused once and tries again.",
        section="Pod .*, events of kubelet",
        real=r"Warning FailedMount: MountVolume.SetUp failed for volume .* : \[?failed to fetch"
        " token: serviceaccounts .* is forbidden: .*(: no relationship found between node .*|"
        "node requested token bound to a pod scheduled on a different node)",
        sometimes=True,
    ),
    Difference(
        "deleted once more",
        "The StatefulSet controller deletes a pod again, and says so again, as long as it has not"
        " seen that the pod is being deleted.",
        section="StatefulSet .*, events of statefulset-controller",
        embedded=r"Normal SuccessfulDelete: Delete Pod .* successful( x\d+)?",
        real=r"Normal SuccessfulDelete: Delete Pod .* successful( x\d+)?",
        sometimes=True,
    ),
    Difference(
        "a probe of what has ended",
        "The kubelet learns up to a second later that a container has ended, and may probe it"
        " meanwhile. A probe that runs when its container ends is killed with it, and has then"
        " failed without a word, or with that of a system call, on either cluster.",
        section="Pod .*, events of kubelet",
        embedded="Warning Unhealthy .*: Readiness probe failed:"
        r"( command timed out after 1s| /proc/\d+/\S+: No such file or directory)?",
        real="Warning Unhealthy .*: Readiness probe (failed:|errored and resulted in unknown state:"
        " rpc error: .*)",
        scenarios="worker-crashes|mpi-.*",
        sometimes=True,
    ),
    Difference(
        "a log that is deleted early",
        "The kubelet may delete the log of a container that is restarted, or whose pod is deleted,"
        " before it reads the termination message from it.",
        section="Pod .*, last status",
        real=r"containerStatuses\[.*\]\.(lastState|state)\.terminated\.message: Error on reading"
        " termination message from logs: .*",
        sometimes=True,
    ),
    Difference(
        "a container that needs too much memory",
        "The embedded cluster has no cgroups: the node measures what containers use, kills them"
        " itself, and says so in an event. Files in `/tmp` and on the container's root count,"
        " because they are in memory; on a cluster they are on disk. It leaves out what such a"
        " pod was given.",
        section="Pod .*, (last status|events of kubelet)",
        embedded=r"containerStatuses\[mxnet\]\.state\.terminated\.signal: 9|Warning OOMKilling .*",
        real=r"(allocatedResources|resources\.(limits|requests))\.memory: 48Mi",
        scenarios="mxjob-out-of-memory",
    ),
    Difference(
        "a pod that is deleted while it fails",
        "When one replica of an MxJob is killed, the pods of all are deleted: that one either"
        " before its phase says Failed, which updates it once more, or afterwards.",
        section="Pod .*, (life|last status)",
        embedded=r"(.*\.observedG|observedG)eneration: .*|metadata\.deletion[A-Za-z]+: .*",
        real=r"(.*\.observedG|observedG)eneration: .*|metadata\.deletion[A-Za-z]+: .*",
        scenarios="mxjob-.*",
        sometimes=True,
    ),
    Difference(
        "who deletes the pods of a Job",
        "Garbage collection may delete pods of a Job before the operator does, which counts only"
        " its own.",
        section="MxJob .*, events of mx-job-operator",
        embedded=r"Normal SuccessfulDelete: Deleted (\d+ pods|pod): .*",
        real=r"Normal SuccessfulDelete: Deleted (\d+ pods|pod): .*",
        scenarios="mxjob-.*",
        sometimes=True,
    ),
    Difference(
        "a suspended Job and its rules",
        "The pods of a Job that is suspended are ended by its controller, which may apply the"
        " Job's podFailurePolicy to them nevertheless.",
        section="Job .*, (life|last status)",
        real=r"conditions?[ \[]FailureTarget\b.*",
        scenarios="mxjob-.*",
        sometimes=True,
    ),
    Difference(
        "what is stored without effect",
        "The embedded cluster filters no traffic and has no addresses outside of it, and says so in"
        " an event.",
        section="(NetworkPolicy|Service) .*, events of traincrew-local",
        embedded="Warning NotEmulated: .*",
        scenarios="mpi-options",
    ),
    Difference(
        "names of revisions",
        "The hash in the name of a ControllerRevision is that of the template: two StatefulSets of"
        " the same name have the same one, one after the other. On the embedded cluster it is also"
        " that of the StatefulSet.",
        section="ControllerRevision .*|Pod .*, as stored|StatefulSet .*, last status",
        embedded=r"created|(data|metadata|revision)\b.*|(current|update)Revision: .*",
        real=r"created|(data|metadata|revision)\b.*|(current|update)Revision: .*",
        scenarios="mpi-deleted",
    ),
    Difference(
        "addresses of Services",
        "A controller that checks all addresses may see a Service before its address.",
        section="Service .*, events of ipallocator-repair-controller",
        real="Warning ClusterIPNotAllocated: .*",
        sometimes=True,
    ),
    Difference(
        "mpiexec and its agent",
        "Open MPI warns when the agent it has started is a moment faster than itself.",
        section="Pod .*, log",
        embedded=OPEN_MPI_WARNING,
        real=OPEN_MPI_WARNING,
        scenarios="training",
        sometimes=True,
    ),
)
