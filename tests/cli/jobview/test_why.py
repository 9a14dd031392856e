"""Every situation has the right explanation: tables of objects as clusters report them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from cli import builders
from cli.builders import condition
from traincrew.cli.display.objects import Event, Job, Pod, Progress, Workload, decode
from traincrew.cli.display.quiet import Output
from traincrew.cli.jobview.objects import Node, QueuePlace, Quota
from traincrew.cli.jobview.why import Explanation, Facts, explain
from traincrew.plan.kinds import KINDS

CHAINER = next(kind for kind in KINDS if kind.definition.kind == "ChainerJob")
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
CREATED = "2026-01-01T00:00:00Z"
POD = "digits-master-x"
GPU = "nvidia.com/gpu"


SEEN = condition("Created", reason="ChainerJobCreated")
WAITING = [SEEN, condition("Running", "False", "WaitingForWorkers", "0/2 workers ready")]
RUNNING = [SEEN, condition("Running", reason="ChainerJobRunning", message="The master runs.")]


def failed(reason: str, message: str = "it failed") -> list[Any]:
    return [SEEN, condition("Failed", reason=reason, message=message)]


def job(conditions: Any = (), *, workers: int = 0, generation: int = 1, seen: int = 1,
        created: str = CREATED, deleted: str | None = None, message: str = "",
        manager: str = "traincrew.dev/operator", **status: Any) -> Job:  # fmt: skip
    return decode(
        {
            "kind": "ChainerJob",
            "metadata": {
                "name": "digits",
                "namespace": "train",
                "uid": "uid-job",
                "generation": generation,
                "creationTimestamp": created,
                "deletionTimestamp": deleted,
            },
            "spec": {
                "managedBy": manager,
                "master": {},
                "workerSets": {"ws0": {"replicas": workers}},
            },
            "status": {
                "conditions": list(conditions),
                "observedGeneration": seen,
                "phase": "Created" if conditions else "",
                "reason": "WaitingForWorkers" if conditions else "",
                "message": message or ("0/2 workers ready" if conditions else ""),
                **status,
            },
        },
        Job,
    )


def pod(state: Any = None, *, phase: str = "Pending", node: str = "n1", last: Any = None,
        name: str = POD, init: Any = None, restarts: int = 0, created: str = CREATED,
        deleted: str | None = None, conditions: Any = (), **status: Any) -> Pod:  # fmt: skip
    container = {"name": "chainer", "image": "example.com/x:1", "restartCount": restarts}
    states = [{**container, "state": state, "lastState": last or {}}] if state is not None else []
    return decode(
        {
            "metadata": {
                "name": name,
                "namespace": "train",
                "uid": f"uid-{name}",
                "labels": {"chainerjob.kubeflow.org/role": "master"},
                "creationTimestamp": created,
                "deletionTimestamp": deleted,
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "chainer", "image": "example.com/x:1"}],
                "initContainers": [{"name": "prepare"}] if init else [],
            },
            "status": {
                "phase": phase,
                "containerStatuses": states,
                "initContainerStatuses": [init] if init else [],
                "conditions": list(conditions),
                **status,
            },
        },
        Pod,
    )


def unplaced(message: str, reason: str = "Unschedulable") -> Pod:
    return pod(node="", conditions=[condition("PodScheduled", "False", reason, message)])


def waits(reason: str, message: str = "", **more: Any) -> Pod:
    return pod({"waiting": {"reason": reason, "message": message}}, **more)


def ended(code: int, reason: str = "Error", message: str = "", **more: Any) -> Pod:
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message}}
    return pod(state, phase="Failed", **more)


def event(reason: str, message: str, about: str = POD, kind: str = "Pod") -> Event:
    return builders.event(message, reason=reason, about=(kind, about))


def why(found: Job, *pods: Pod, events: Any = (), children: Any = (), **more: Any) -> Explanation:
    facts = Facts(kind=CHAINER, job=found, pods=pods, now=NOW, events=events, children=children,
                  **more)  # fmt: skip
    return explain(facts)


def nodes(*messages: str) -> str:
    return f"0/4 nodes are available: {', '.join(messages)}."


PLACING = {
    "no-nodes": "no nodes available to schedule pods",
    "missing-claim": nodes('persistentvolumeclaim "data" not found'),
    "terminating-claim": nodes('persistentvolumeclaim "data" is being deleted'),
    "lost-claim": nodes('persistentvolumeclaim "data" bound to non-existent persistentvolume "v"'),
    "claim-of-another": nodes(
        "PVC default/p-data was not created for pod default/p (pod is not owner)"
    ),
    "unbound-claim": nodes("pod has unbound immediate PersistentVolumeClaims"),
    "volume-elsewhere": nodes("4 node(s) had volume node affinity conflict"),
    "insufficient-gpu": nodes("1 Insufficient cpu", f"4 Insufficient {GPU}"),
    "insufficient-memory": nodes("4 Insufficient memory"),
    "insufficient-storage": nodes("4 Insufficient ephemeral-storage"),
    "insufficient-cpu": nodes("4 Insufficient cpu")
    + " preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod.",
    "insufficient-resource": nodes("4 Insufficient rdma/hca"),
    "too-many-pods": nodes("4 Too many pods"),
    "ports-taken": nodes("4 node(s) didn't have free ports for the requested pod ports"),
    "other-pods-forbid": nodes("4 node(s) didn't match pod anti-affinity rules"),
    "other-pods-wanted": nodes("4 node(s) didn't match pod affinity rules"),
    "spread": nodes("4 node(s) didn't match pod topology spread constraints"),
    "node-selector": nodes("4 node(s) didn't match Pod's node affinity/selector"),
    "node-not-ready": nodes("4 node(s) had untolerated taint {node.kubernetes.io/not-ready: }"),
    "node-pressure": nodes("4 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }"),
    "node-cordoned": nodes("4 node(s) were unschedulable"),
    "taint": nodes("4 node(s) had untolerated taint {dedicated: gpu}"),
    "node-name": nodes("4 node(s) didn't match the requested node name"),
    "unschedulable": nodes("4 node(s) are purple"),
}


@pytest.mark.parametrize("cause", PLACING)
def test_pods_that_no_node_takes(cause: str) -> None:
    found = why(job(WAITING), unplaced(PLACING[cause]))
    assert found.cause == cause
    assert f"Pod {POD} of ChainerJob digits cannot be placed" in found.text
    assert found.evidence[0].startswith(f"condition PodScheduled of pod {POD}: ")
    assert found.fix


def test_what_the_nodes_are() -> None:
    cordoned = decode({"metadata": {"name": "n2"}, "spec": {"unschedulable": True}}, Node)
    plain = decode({"metadata": {"name": "n1"}}, Node)
    found = why(job(WAITING), unplaced(PLACING["node-cordoned"]), nodes=[plain, cordoned])
    assert found.evidence[1] == "nodes: n1, n2; cordoned: n2"
    found = why(job(WAITING), unplaced(PLACING["insufficient-gpu"]))
    assert f"enough free {GPU}." in found.text
    found = why(job(WAITING), unplaced(PLACING["taint"]))
    assert "toleration" in found.fix


def test_pods_that_are_placed_together() -> None:
    text = "4 pods are scheduled together or not at all (coscheduling): 3 Insufficient cpu"
    waits = [SEEN, condition("Running", "False", "WaitingForGang", text)]
    found = why(job(waits), unplaced(PLACING["insufficient-gpu"]))
    assert found.cause == "waiting-for-gang"
    assert "3 Insufficient cpu" in found.text
    assert "minAvailable" in found.fix
    text = "Only 1 of 2 pods found room within 60 s"
    found = why(job([SEEN, condition("Suspended", reason="GangReleased", message=text)]))
    assert found.cause == "gang-released"
    assert text in found.text
    assert found.fix


def test_what_of_the_scheduling_policy_is_not_honored() -> None:
    text = "spec.runPolicy.schedulingPolicy.queue: coscheduling does not honor it; remove the field"
    told = event("SchedulingPolicyNotHonored", text, about="digits", kind="ChainerJob")
    found = why(job(WAITING), unplaced(PLACING["insufficient-gpu"]), events=[told])
    assert found.cause == "insufficient-gpu"
    assert text in found.text


def test_gates_and_schedulers() -> None:
    found = why(job(WAITING), unplaced("Scheduling is blocked", "SchedulingGated"))
    assert found.cause == "scheduling-gated"
    found = why(job(WAITING), pod(node=""))
    assert found.cause == "no-scheduler"
    assert "for 600 s" in found.text


PULL = 'Back-off pulling image "example.com/x:1"'
STARTING = {
    "no-environment": waits("ErrImagePull", "no environment is defined for it"),
    "image-name": waits("InvalidImageName", "couldn't parse image name"),
    "image-never-pulled": waits("ErrImageNeverPull", "is not present with pull policy of Never"),
    "image-unauthorized": waits("ErrImagePull", "pull access denied, repository does not exist"),
    "image-not-found": waits("ErrImagePull", "manifest unknown"),
    "registry-limit": waits("ErrImagePull", "toomanyrequests: You have reached your rate limit"),
    "registry-unreachable": waits("ErrImagePull", "dial tcp: lookup example.com: no such host"),
    "image": waits("ImagePullBackOff", PULL),
    "missing-key": waits(
        "CreateContainerConfigError", "couldn't find key lr in ConfigMap train/settings"
    ),
    "missing-configmap": waits("CreateContainerConfigError", 'configmap "settings" not found'),
    "missing-secret": waits("CreateContainerConfigError", 'secret "token" not found'),
    "must-not-run-as-root": waits(
        "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"
    ),
    "command-not-found": waits(
        "RunContainerError", 'exec: "trian": executable file not found in $PATH'
    ),
    "configuration": waits("CreateContainerError", "something else"),
    "initializing": pod(
        init={"name": "prepare", "state": {"running": {"startedAt": "2026-01-01T00:09:00Z"}}}
    ),
    "init-container-failed": pod(
        init={"name": "prepare", "state": {"terminated": {"exitCode": 4, "reason": "Error"}}}
    ),
    "slow-start": pod(),
    "not-ready": pod({"running": {}}, phase="Running", conditions=[condition("Ready", "False")]),
    "stuck-terminating": pod({"running": {}}, phase="Running", deleted="2026-01-01T00:05:00Z"),
}


@pytest.mark.parametrize("cause", STARTING)
def test_pods_that_do_not_start(cause: str) -> None:
    found = why(job(WAITING), STARTING[cause])
    assert found.cause == cause
    assert found.text.startswith(f"Pod {POD} of ChainerJob digits ")
    assert found.evidence
    assert POD in found.evidence[0]
    assert found.fix


PULLS = {
    "image-unauthorized": (
        "the registry (r.example) answered 401 Unauthorized. It wants credentials, and none were "
        "found (/home/me/.docker/config.json: does not exist): log in"
    ),
    "image-not-found": (
        "the registry (r.example) answered 404 Not Found: manifest unknown. There is no such image "
        "or tag, or it may not be seen without credentials: check the name"
    ),
    "image-platform": "it is not for linux/amd64: it is there for linux/arm64",
    "registry-limit": "the registry (r.example) answered 429 Too Many Requests. Wait",
    "registry-unreachable": (
        "cannot reach https://r.example: Name or service not known. Check the name of the registry,"
        " the network and the proxy (HTTPS_PROXY, NO_PROXY)"
    ),
    "disk-full": "No space left on device: free some disk space",
}


@pytest.mark.parametrize("cause", PULLS)
def test_pulls_of_the_embedded_cluster_that_fail(cause: str) -> None:
    message = f'failed to pull image "r.example/x:1" from r.example: {PULLS[cause]}'
    assert why(job(WAITING), waits("ErrImagePull", message)).cause == cause


def test_an_image_for_other_processors_in_the_words_of_containerd() -> None:
    message = 'failed to resolve reference "x": no match for platform in manifest: not found'
    assert why(job(WAITING), waits("ErrImagePull", message)).cause == "image-platform"


EVENTS = {
    "missing-configmap": ("FailedMount", 'configmap "settings" not found'),
    "missing-secret": ("FailedMount", 'MountVolume.SetUp failed: secret "token" not found'),
    "missing-claim": ("FailedMount", 'persistentvolumeclaim "data" not found'),
    "terminating-claim": ("FailedMount", "error processing PVC x/data: PVC is being deleted"),
    "unbound-claim": ("FailedMount", "error processing PVC x/data: PVC is not bound"),
    "volume-in-use": ("FailedAttachVolume", "Multi-Attach error for volume"),
    "host-path": ("FailedMount", "hostPath type check failed: /data is not a directory"),
    "volume": ("FailedMount", "timed out waiting for the condition"),
    "disk-full": ("FailedCreatePodSandBox", "Failed to create: /data: No space left on device"),
    "sandbox": ("FailedCreatePodSandBox", "plugin type=calico failed"),
}


@pytest.mark.parametrize("cause", EVENTS)
def test_volumes_that_cannot_be_mounted(cause: str) -> None:
    found = why(job(WAITING), waits("ContainerCreating"), events=[event(*EVENTS[cause])])
    assert found.cause == cause
    assert found.text.startswith(f"Pod {POD} of ChainerJob digits cannot start: ")


@pytest.mark.parametrize("reason", ["FailedMount", "CreateContainerError"])
def test_a_full_disk(reason: str) -> None:
    words = "[Errno 28] No space left on device: '/data/hosts'"
    state = "ContainerCreating" if reason == "FailedMount" else reason
    found = why(job(WAITING), waits(state, words), events=[event(reason, words)])
    assert found.cause == "disk-full"
    assert "the disk of its node is full" in found.text


def test_the_event_before_a_back_off_has_the_reason() -> None:
    earlier = event("Failed", 'Failed to pull image "example.com/x:1": manifest unknown')
    found = why(job(WAITING), waits("ImagePullBackOff", PULL), events=[earlier])
    assert found.cause == "image-not-found"
    assert "there is no image example.com/x:1" in found.text
    other = event("Failed", "manifest unknown", about="digits-b-master-y")
    assert why(job(WAITING), waits("ImagePullBackOff", PULL), events=[other]).cause == "image"


def test_probes() -> None:
    running = pod({"running": {}}, phase="Running", conditions=[condition("Ready", "False")])
    probe = event("Unhealthy", "Readiness probe failed: connection refused")
    assert why(job(WAITING), running, events=[probe]).cause == "readiness-probe"
    probe = event("Unhealthy", "Liveness probe failed: HTTP 500")
    assert why(job(WAITING), running, events=[probe]).cause == "liveness-probe"


def test_a_program_of_the_machine_that_has_the_port_of_a_pod() -> None:
    """The pods run, or fail, and talk to another program: nothing else tells."""
    taken = event("HostPortConflict", "port 9091 is taken on this machine by nc (process 7)")
    running = pod({"running": {}}, phase="Running", conditions=[condition("Ready", "True")])
    failed = [SEEN, condition("Failed", reason="BackoffLimitExceeded")]
    for status in (WAITING, RUNNING, failed):
        found = why(job(status), running, events=[taken])
        assert found.cause == "port-taken"
        assert "by nc (process 7)" in found.text
        assert any("event HostPortConflict of pod" in each for each in found.evidence)
    other = event("HostPortConflict", "port 9091 is taken", about="another")
    assert why(job(RUNNING), running, events=[other]).cause == "running"


@pytest.mark.parametrize("phase", ["waits", "runs"])
def test_a_node_that_does_not_answer_is_named(phase: str) -> None:
    """Its controller changes the condition Ready of the pods, and nothing else."""
    lost = pod(
        phase="Running",
        node="gpu-3",
        conditions=[condition("Ready", "False")],
        containerStatuses=[{"name": "chainer", "ready": True, "state": {"running": {}}}],
    )
    found = why(job(WAITING if phase == "waits" else RUNNING), lost)
    assert found.cause == "node-lost"
    assert "its node gpu-3 does not answer" in found.text
    assert found.fix.endswith("kubectl get node gpu-3")


REFUSED = {
    "quota": 'pods "x" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, '
    "limited: pods=4",
    "quota-needs-requests": 'pods "x" is forbidden: failed quota: team: must specify cpu for: main',
    "limit-range": 'pods "x" is forbidden: maximum cpu usage per Container is 1, but limit is 2.',
    "pod-security": 'pods "x" is forbidden: violates PodSecurity "restricted:latest": hostPath',
    "missing-service-account": 'error looking up service account train/a: serviceaccount "a" '
    "not found",
    "missing-priority-class": "no PriorityClass with name urgent was found",
    "missing-runtime-class": 'pod rejected: RuntimeClass "gvisor" not found',
    "foreign-pod": "digits-workerset-ws0-0: another pod has this name and is not managed by this"
    " job",
    "webhook-denied": 'admission webhook "check.example.com" denied the request: no team label',
    "webhook-unreachable": 'failed calling webhook "check.example.com": connection refused',
    "namespace-terminating": "unable to create new content in namespace train because it is being "
    "terminated",
    "operator-rights": 'User "system:serviceaccount:ops:operator" cannot create resource "pods" '
    "in API group",
    "invalid-template": 'Pod "x" is invalid: spec.containers[0].image: Required value',
}


@pytest.mark.parametrize("cause", REFUSED)
def test_pods_that_cannot_be_created(cause: str) -> None:
    """Whoever says it: an event of the controller, or the status of the job."""
    set_ = decode({"metadata": {"name": "digits-workerset-ws0", "uid": "s"}}, Workload)
    said = event("FailedCreate", REFUSED[cause], "digits-workerset-ws0", "StatefulSet")
    found = why(job(WAITING, workers=2), events=[said], children=[set_])
    assert found.cause == cause
    assert "ChainerJob digits waits for 3 pods that cannot be created: " in found.text
    told = f"0/2 workers ready; digits-workerset-ws0-0: {REFUSED[cause]}"
    assert why(job(WAITING, workers=2, message=told)).cause == cause
    synced = [*WAITING, condition("Synced", "False", "FailedSynced", REFUSED[cause])]
    assert why(job(synced)).cause == cause
    # Once all pods are there, the event is history.
    there = pod({"running": {}}, phase="Running")
    assert why(job(WAITING), there, events=[said], children=[set_]).cause != cause


def test_a_quota_is_shown_with_what_is_used() -> None:
    quota = decode(
        {"metadata": {"name": "team"}, "status": {"hard": {"pods": "4"}, "used": {"pods": "4"}}},
        Quota,
    )
    found = why(job(WAITING, message=REFUSED["quota"]), quotas=[quota])
    assert "quota team of namespace train allows pods=4, and pods=4 is used" in found.text
    assert "quota team, used/hard: pods 4/4" in found.evidence


ENDS = {
    "out-of-memory": ended(137, "OOMKilled"),
    "killed": ended(137),
    "terminated": ended(143),
    "segmentation-fault": ended(139),
    "aborted": ended(134),
    "bus-error": ended(135),
    "command-not-found": ended(127),
    "command-not-executable": ended(126),
    "script-not-found": ended(2, message="python: can't open file '/app/a.py': [Errno 2] No"),
    "program-failed": ended(3, message="Traceback (most recent call last):\nValueError: no data"),
    "evicted": pod(
        phase="Failed", reason="Evicted", message="The node was low on resource: memory"
    ),
    "volume-too-large": pod(
        phase="Failed",
        reason="Evicted",
        message='Usage of EmptyDir volume "data" exceeds the limit "10Mi". ',
    ),
    "storage-limit": pod(
        phase="Failed",
        reason="Evicted",
        message="Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    ),
    "node-lost": pod(phase="Failed", reason="NodeLost"),
    "node-shutdown": pod(phase="Failed", reason="NodeShutdown"),
    "pod-deadline": pod(phase="Failed", reason="DeadlineExceeded"),
    "rejected-by-node": pod(phase="Failed", reason="OutOfcpu"),
    "preempted": pod(
        phase="Failed", conditions=[condition("DisruptionTarget", reason="PreemptionByScheduler")]
    ),
    "drained": pod(
        phase="Failed", conditions=[condition("DisruptionTarget", reason="EvictionByEvictionAPI")]
    ),
    "node-pressure": pod(
        phase="Failed", conditions=[condition("DisruptionTarget", reason="TerminationByKubelet")]
    ),
    "disrupted": pod(phase="Failed", conditions=[condition("DisruptionTarget", reason="Other")]),
}


@pytest.mark.parametrize("cause", ENDS)
def test_jobs_that_failed_with_a_pod(cause: str) -> None:
    found = why(job(failed("BackoffLimitExceeded")), ENDS[cause])
    assert found.cause == cause
    assert found.text.startswith("ChainerJob digits has failed and has no retries left. Pod ")
    assert found.fix
    restarting = [*RUNNING[:1], condition("Restarting", reason="MasterFailed", message="again")]
    assert why(job(restarting), ENDS[cause]).cause == cause


def test_files_in_memory_are_evidence() -> None:
    killed = event("OOMKilling", "Container main used 70 MiB of memory, its limit is 64Mi; files")
    found = why(job(failed("BackoffLimitExceeded")), ENDS["out-of-memory"], events=[killed])
    assert found.evidence[1].endswith("its limit is 64Mi; files")


def test_a_command_that_does_not_exist() -> None:
    found = why(
        job(failed("BackoffLimitExceeded")),
        ended(128, "StartError", 'exec: "trian": executable file not found in $PATH'),
    )
    assert found.cause == "command-not-found"
    assert "cannot be started: exec:" in found.text


def test_an_object_of_somebody_else_keeps_the_spec_from_taking_effect() -> None:
    synced = condition("Synced", "False", "ErrResourceExists", "exists")
    assert why(job([*WAITING, synced], generation=1, seen=0)).cause == "foreign-child"


def test_the_programs_own_words() -> None:
    found = why(job(failed("BackoffLimitExceeded")), ENDS["program-failed"])
    assert "its program ended with exit code 3: ValueError: no data" in found.text
    crash = waits(
        "CrashLoopBackOff",
        restarts=4,
        phase="Running",
        last={"terminated": {"exitCode": 1, "reason": "Error", "message": "no such file: /data"}},
    )
    found = why(job(WAITING), crash)
    assert found.cause == "program-failed"
    assert "exit code 1: no such file: /data. It is restarted." in found.text
    assert f"container chainer of pod {POD} was restarted 4 times" in found.evidence
    assert "--previous" not in found.evidence[0]
    assert found.fix == "traincrew logs digits -n train --previous"
    early = waits("CrashLoopBackOff", last={"terminated": {"exitCode": 0, "reason": "Completed"}})
    assert why(job(WAITING), early).cause == "ended-too-early"


JOBS = {
    "deleted": job(RUNNING, deleted=CREATED),
    "just-created": job(created="2026-01-01T00:09:58Z"),
    "operator-absent": job(),
    "managed-elsewhere": job(RUNNING, manager="kueue.x-k8s.io/multikueue"),
    "operator-behind": job(RUNNING, generation=2),
    "suspended": job([SEEN, condition("Suspended", reason="ChainerJobSuspended")]),
    "draining": job([SEEN, condition("Suspended", reason="Draining")]),
    "succeeded": job([SEEN, condition("Succeeded", reason="ChainerJobSucceeded")]),
    "changed-too-late": job(
        [condition("Succeeded"), condition("Synced", "False", "JobFinished", "It will not run.")]
    ),
    "invalid-spec": job(failed("FailedValidation", "spec.master: required")),
    "deadline": job(failed("DeadlineExceeded")),
    "no-progress": job(failed("NoProgress", "no output for 600 s")),
    "foreign-child": job([*WAITING, condition("Synced", "False", "ErrResourceExists", "exists")]),
    "waiting-for-deletion": job(
        [*WAITING, condition("Synced", "False", "WaitingForDeletion", "digits-master")]
    ),
    "not-applied": job([*WAITING, condition("Synced", "False", "FailedSynced", "spec.x")]),
    "not-started-in-time": job(failed("WorkersNotReady", "Not started within 1800 s")),
    "retries-exhausted": job(failed("BackoffLimitExceeded")),
    "failed": job(failed("Other")),
    "restarted-for-no-progress": job([SEEN, condition("Restarting", reason="NoProgress")]),
    "restarting": job([SEEN, condition("Restarting", reason="MasterLost")]),
    "running": job(RUNNING),
    "failing": job([*RUNNING, condition("FailureTarget", reason="DeadlineExceeded")]),
    "not-advancing": job([*RUNNING, condition("Progressing", "False", "NotAdvancing", "45%")]),
    "rank-behind": job([*RUNNING, condition("Progressing", "False", "RankBehind", "Rank 3")]),
    "fewer-workers": job([*RUNNING, condition("Fitted", reason="WorkersGivenUp")]),
    "starting": job(WAITING),
}


def test_programs_that_write_nothing_any_more() -> None:
    output = Output()
    for second in range(12):
        output.note(f"2026-01-01T00:08:{second:02}.5Z", NOW.timestamp())
    found = why(job(RUNNING), outputs={POD: output})
    assert found.cause == "no-output"
    assert "has written no output for 1 min 48 s (usually every second). It may hang" in found.text
    assert found.evidence[0] == (
        f"the last line of pod {POD} was written at 2026-01-01T00:08:11.5Z"
    )
    assert "traincrew logs digits" in found.fix
    reports = job(RUNNING, progress={"lastUpdateTime": "2026-01-01T00:09:55Z"})
    assert why(reports, outputs={POD: output}).cause == "running"


@pytest.mark.parametrize("conditions", [(), RUNNING])
def test_a_job_of_multikueue_says_where_to_look(conditions: Any) -> None:
    found = why(job(conditions, manager="kueue.x-k8s.io/multikueue"))
    assert "is run by kueue.x-k8s.io/multikueue, as spec.managedBy says: on another" in found.text
    assert "kubectl describe workloads.kueue.x-k8s.io -n train" in found.fix
    assert "job-uid=uid-job" in found.fix


def test_a_job_of_another_manager_is_not_for_our_operator() -> None:
    found = why(job(manager="example.com/other"))
    assert found.text.endswith(
        "is run by example.com/other, as spec.managedBy says; its status is empty."
    )


@pytest.mark.parametrize("cause", JOBS)
def test_states_of_the_job_itself(cause: str) -> None:
    found = why(JOBS[cause])
    assert found.cause == cause
    assert "ChainerJob digits" in found.text
    assert found.evidence
    assert found.fix or cause in {"running", "succeeded"}


def test_jobs_that_wait_for_peers_or_run_without_some() -> None:
    up = pod({"running": {}}, phase="Running", name="a")
    assert why(job(WAITING, workers=2), up, pod(created="2026-01-01T00:09:59Z")).cause == (
        "waiting-for-peers"
    )
    found = why(job(RUNNING), up, unplaced(PLACING["insufficient-cpu"]))
    assert found.cause == "insufficient-cpu"
    assert found.text.startswith("ChainerJob digits runs, but not with all of its pods. Pod ")
    late = job(failed("WorkersNotReady", "Not started within 1800 s: 0/2 workers ready"))
    assert why(late, unplaced(PLACING["insufficient-cpu"])).cause == "insufficient-cpu"


def test_the_log_of_the_slowest_rank_is_named() -> None:
    behind = job([*RUNNING, condition("Progressing", "False", "RankBehind", "Rank 3 is behind.")])
    slowest = [
        {"rank": 3, "pod": "a", "percentage": 12.5},
        {"rank": 0, "pod": "b", "percentage": 45},
    ]
    ranks = {"count": 4, "median": 45, "slowest": slowest}
    progress = decode({"percentage": 45, "ranks": ranks}, Progress)
    behind = replace(behind, status=replace(behind.status, progress=progress))

    found = why(behind, pod({"running": {}}, phase="Running", name="a"))

    assert found.text == (
        "ChainerJob digits is running, but one rank is far behind the others: Rank 3 is behind."
    )
    assert "traincrew logs digits --role master --rank 0;" in found.fix
    assert found.evidence[1] == (
        "status.progress.ranks: median of 4 is 45%; rank 3 in pod a 12.5%, rank 0 in pod b 45%"
    )
    # The rank that the condition names need not be the slowest one.
    message = "Rank 0 in pod b is behind: it has done 12%."
    named = [*RUNNING, condition("Progressing", "False", "RankBehind", message)]
    worker = pod({"running": {}}, phase="Running", name="b")
    status = replace(job(named).status, progress=progress)
    found = why(replace(behind, status=status), worker)
    assert "traincrew logs digits --role" in found.fix
    # A pod that is gone has no log; a pod that is in trouble explains more.
    assert "traincrew logs digits;" in why(behind).fix
    assert why(behind, unplaced(PLACING["insufficient-cpu"])).cause == "insufficient-cpu"


def test_a_lost_node_and_several_pods_with_one_problem() -> None:
    node = decode(
        {"metadata": {"name": "n1"}, "status": {"conditions": [condition("Ready", "Unknown")]}},
        Node,
    )
    stuck = STARTING["stuck-terminating"]
    found = why(job(WAITING), stuck, nodes=[node])
    assert found.cause == "node-lost"
    assert "kubectl delete node n1" in found.fix
    alike = [
        waits("CreateContainerConfigError", 'secret "token" not found', name=f"digits-{number}")
        for number in range(3)
    ]
    assert why(job(WAITING), *alike).text.endswith("The same problem: 2 other pods have it.")


def test_hostile_words_stay_words() -> None:
    bad = "{0} {subject} \x1b[31m\u202e\n" + "x" * 5000
    for reason in ("ErrImagePull", "CreateContainerError"):
        found = why(job(WAITING), waits(reason, bad))
        assert found.text.isprintable()
        assert all(line.isprintable() and len(line) < 700 for line in found.evidence)
    found = why(job(failed("Other", bad)))
    assert found.text.isprintable()


def test_there_are_many_situations() -> None:
    """The table is what the command promises."""
    tables = (PLACING, STARTING, EVENTS, REFUSED, ENDS, JOBS)
    causes = {cause for table in tables for cause in table}
    assert len(causes) >= 80


@pytest.mark.parametrize(
    "cause", [cause for cause in ENDS if cause in {"killed", "program-failed"}]
)
def test_a_restart_that_waits_says_for_how_long(cause: str) -> None:
    message = f"Worker 0 failed: {'x' * 900}. All replicas are restarted in 20 s (restart 3 of 6)."
    restarting = [*RUNNING[:1], condition("Restarting", reason="MxJobRestarting", message=message)]
    said = "It is restarted in 20 s, because it has failed before."
    assert why(job(restarting), ENDS[cause]).text.endswith(said)
    assert why(job(restarting)).text.endswith(said)


def test_a_failed_job_that_was_edited_later_says_first_why_it_failed() -> None:
    late = condition("Synced", "False", "JobFinished", "It will not run.")
    found = why(job([*failed("BackoffLimitExceeded"), late]), ENDS["out-of-memory"])
    assert found.cause == "out-of-memory"
    assert found.text.startswith("ChainerJob digits has failed and has no retries left. Pod ")
    assert found.text.endswith("Its spec was changed after that, which has no effect.")
    assert found.evidence[-1].endswith("JobFinished: It will not run.")
    assert found.fix.startswith("raise resources.limits.memory")
    assert found.fix.endswith("delete the job and create it again")


LEAVES = "2026-01-01T00:10:25Z"


def test_pods_that_are_being_ended_are_counted() -> None:
    """Whatever their job says: a grace period is long."""
    leaving = [
        pod({"running": {}}, phase="Running", name=name, deleted=LEAVES) for name in ("a", "b")
    ]
    there = pod({"running": {}}, phase="Running", name="c")
    past = job([*RUNNING, condition("FailureTarget", reason="Deadline", message="It was late.")])
    assert why(past, *leaving).text == (
        "ChainerJob digits is about to fail: It was late. It waits for its pods to end."
        " All of its pods are being ended, which may take 25 s more."
    )
    assert why(job(failed("DeadlineExceeded")), leaving[0]).text.endswith(
        "activeDeadlineSeconds. Pod a is being ended, which may take 25 s more."
    )
    told = "The master runs. 2 pods are being ended."
    running = [SEEN, condition("Running", reason="ChainerJobRunning", message=told)]
    assert why(job(running), *leaving, there).text == (
        "ChainerJob digits is running: The master runs."
        " 2 of its pods are being ended, which may take 25 s more."
    )
    draining = job([SEEN, condition("Suspended", reason="Draining")])
    assert why(draining, *leaving).text.endswith("25 s more.")
    ended_pod = ended(143, deleted=LEAVES)
    assert "being ended" not in why(job(RUNNING), ended_pod, there).text


def test_a_container_that_outlives_the_program_is_named() -> None:
    done = {"name": "chainer", "state": {"terminated": {"exitCode": 0}}}
    proxy = {"name": "proxy", "state": {"running": {}}}
    unready = [condition("Ready", "False")]
    kept = pod(phase="Running", containerStatuses=[done, proxy], conditions=unready)
    found = why(job(RUNNING), kept)
    assert found.cause == "kept-by-sidecar"
    assert found.text == (
        f"Pod {POD} of ChainerJob digits does not end: its program ended with exit code 0, but"
        " container proxy still runs."
    )
    assert "initContainers with restartPolicy: Always" in found.fix
    running = {**done, "state": {"running": {}}}
    both = pod(phase="Running", containerStatuses=[running, proxy])
    assert why(job(RUNNING), both).cause == "running"


def test_jobs_that_run_with_fewer_pods_than_they_ask_for() -> None:
    queue = {"name": "team-a", "admitted": {"worker": 3}}
    found = why(job(RUNNING, queue=queue))
    assert found.cause == "fewer-admitted"
    assert "as queue team-a allows: it has admitted 3 worker pods" in found.text
    assert "kubectl annotate chainerjob digits -n train kueue.x-k8s.io/elastic-job=" in found.fix
    asks = "3 worker pods were admitted, and 6 are asked for: insufficient unused quota"
    found = why(job(RUNNING, queue={**queue, "message": asks}))
    assert asks in found.text
    assert found.fix == "nothing, it grows when quota is free"
    assert why(job(RUNNING, queue={"name": "team-a"})).cause == "running"


def test_jobs_that_their_queue_holds() -> None:
    text = "Waiting in queue nobody: LocalQueue nobody doesn't exist; create the queue"
    held = condition("Suspended", reason="QueueAdmissionPending", message=text)
    found = why(job([SEEN, held]))
    assert found.cause == "waiting-for-queue"
    assert "LocalQueue nobody doesn't exist" in found.text
    assert found.fix == "create the queue"
    assert len(found.evidence) == 1
    held = condition("Suspended", reason="QueueEvicted", message="Evicted from queue a: Preempted")
    found = why(job([SEEN, held]))
    assert found.cause == "evicted-from-queue"
    assert "workloads.kueue.x-k8s.io" in found.fix
    held = condition("Suspended", reason="QueueAdmissionPending", message="Waiting in queue a")
    found = why(job([SEEN, held]), place=QueuePlace(1, 3))
    assert found.text.endswith("Waiting in queue a; 3 are before it")
    assert found.evidence[1] == "before it in the LocalQueue: 1; in the ClusterQueue: 3"
    assert why(job([SEEN, held]), place=QueuePlace(0, 0)).text.endswith("the first in line")
    held = condition("Suspended", reason="QueueUnavailable", message="no Kueue; install it")
    assert why(job([SEEN, held])).cause == "queue-unavailable"
