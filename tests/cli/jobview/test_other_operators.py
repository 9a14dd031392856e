"""Jobs that the operators of other projects run: their statuses, as those write them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from cli import builders
from cli.builders import condition
from traincrew.cli.display.objects import Job, Workload, decode
from traincrew.cli.jobview.jobstate import job_state
from traincrew.cli.jobview.kinds import BATCH_JOB, RAY_JOB, shown
from traincrew.cli.jobview.model import summary
from traincrew.cli.jobview.objects import Queued, QueuePlace
from traincrew.cli.jobview.pods import kind_of
from traincrew.cli.jobview.why import Explanation, Facts, explain
from traincrew.cli.page.jobrows import PodCounts, row_of
from traincrew.cli.watching.kinds import named

KINDS = {kind.definition.kind: kind for kind in (*shown(), BATCH_JOB)}
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
CREATED = condition("Created", reason="JobCreated", message="Job digits is created.")
REPLICAS = {"replicas": 2, "template": {}}
SPECS: dict[str, dict[str, Any]] = {
    "PyTorchJob": {"pytorchReplicaSpecs": {"Master": {}, "Worker": REPLICAS}},
    "MXJob": {"mxReplicaSpecs": {"Scheduler": {}, "Worker": REPLICAS}},
    "MPIJob": {"mpiReplicaSpecs": {"Launcher": {}, "Worker": REPLICAS}},
    "JobSet": {
        "replicatedJobs": [
            {"name": "driver", "template": {"spec": {}}},
            {
                "name": "worker",
                "replicas": 2,
                "template": {"spec": {"parallelism": 3}},
                "dependsOn": [{"name": "driver", "status": "Ready"}],
            },
        ]
    },
    "TrainJob": {"trainer": {"numNodes": 4}},
    "Job": {"parallelism": 2},
    "RayJob": {},
}


def counts(name: str, **numbers: int) -> dict[str, Any]:
    return {"name": name, "ready": 0, "active": 0, "succeeded": 0, "failed": 0, **numbers}


def job(kind: str, *conditions: Any, **status: Any) -> Job:
    definition = KINDS[kind].definition
    return decode(
        {
            "kind": kind,
            "apiVersion": definition.api_version,
            "metadata": {
                "name": "digits",
                "namespace": "train",
                "uid": "uid-job",
                "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": SPECS[kind],
            "status": {"conditions": list(conditions), **status},
        },
        Job,
    )


def why(kind: str, found: Job, **facts: Any) -> Explanation:
    return explain(Facts(kind=KINDS[kind], job=found, now=NOW, pods=facts.pop("pods", ()), **facts))


@pytest.mark.parametrize(
    ("found", "phase", "pods"),
    [
        (job("PyTorchJob", CREATED), "Created", "0/3"),
        (
            job("PyTorchJob", CREATED, condition("Running"),
                replicaStatuses={"Master": {"active": 1}, "Worker": {"active": 2}}),
            "Running", "3/3",
        ),
        (
            job("PyTorchJob", CREATED, condition("Running", "False"), condition("Failed"),
                replicaStatuses={"Master": {"failed": 1}, "Worker": {"active": 2}}),
            "Failed", "0/3",
        ),
        (
            job("PyTorchJob", CREATED, condition("Restarting")),
            "Restarting", "0/3",
        ),
        (job("MXJob", CREATED, condition("Succeeded")), "Succeeded", "0/3"),
        (
            job("MPIJob", CREATED, condition("Running"),
                replicaStatuses={"Launcher": {"active": 1}, "Worker": {"active": 2}}),
            "Running", "3/3",
        ),
        (job("JobSet"), "Pending", "0/7"),
        (job("JobSet", replicatedJobsStatus=[counts("worker", active=2)]), "Created", "0/7"),
        (
            job("JobSet", replicatedJobsStatus=[counts("driver", active=1, ready=1),
                                                counts("worker", active=2, ready=1)]),
            "Running", "4/7",
        ),
        (
            job("JobSet", condition("StartupPolicyInProgress"),
                replicatedJobsStatus=[counts("driver", active=1)]),
            "Created", "0/7",
        ),
        (
            job("JobSet", condition("RestartingJobSet"),
                replicatedJobsStatus=[counts("driver", active=1, ready=1)]),
            "Restarting", "1/7",
        ),
        (job("JobSet", condition("Completed")), "Succeeded", "0/7"),
        (job("JobSet", condition("Suspended")), "Suspended", "0/7"),
        (job("TrainJob", jobsStatus=[counts("node", active=1, ready=1)]), "Running", "4/4"),
        (job("TrainJob", condition("Complete")), "Succeeded", "0/4"),
        (job("Job", active=2, ready=1), "Running", "1/2"),
        (job("Job", active=2), "Created", "0/2"),
        (job("Job", condition("Complete")), "Succeeded", "0/2"),
        (job("RayJob", jobDeploymentStatus="Initializing"), "Created", "0/1"),
        (job("RayJob", jobDeploymentStatus="Running", jobStatus="RUNNING"), "Running", "0/1"),
        (job("RayJob", jobDeploymentStatus="Retrying"), "Restarting", "0/1"),
        (job("RayJob", jobDeploymentStatus="Complete", jobStatus="SUCCEEDED"), "Succeeded", "0/1"),
        (job("RayJob", jobDeploymentStatus="Complete", jobStatus="FAILED"), "Failed", "0/1"),
    ],
    ids=lambda found: found.kind if isinstance(found, Job) else "",
)  # fmt: skip
def test_phase_and_ready_pods(found: Job, phase: str, pods: str) -> None:
    row = summary(KINDS[found.kind], found)
    assert (row.phase, f"{row.ready}/{row.desired}") == (phase, pods)


def test_a_row_of_the_page_has_the_same_numbers() -> None:
    found = job("JobSet", replicatedJobsStatus=[counts("driver", ready=1), counts("worker")])
    assert row_of(KINDS["JobSet"], found, None).pods == PodCounts(1, 0, 0, 6)


def test_when_a_job_has_ended_that_has_no_time_for_it() -> None:
    at = "2026-01-01T00:05:00Z"
    ended = {**condition("Completed"), "lastTransitionTime": at}
    assert summary(KINDS["JobSet"], job("JobSet", ended)).ended_at == at
    ray = job("RayJob", jobDeploymentStatus="Failed", endTime=at)
    assert summary(RAY_JOB, ray).ended_at == at


def test_a_rayjob_says_why_it_has_failed() -> None:
    ray = job("RayJob", jobDeploymentStatus="Failed", reason="AppFailed", message="exit code 1")
    state = job_state(ray)
    assert (state.end, state.failure) == ("Failed", "AppFailed: exit code 1")


# -- why ------------------------------------------------------------------------------------------


def failed(reason: str, message: str = "it failed") -> Any:
    return condition("Failed", reason=reason, message=message)


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (job("PyTorchJob", failed("PyTorchJobFailed", "Job digits has failed because it was active"
                                  " longer than specified deadline")), "deadline"),
        (job("PyTorchJob", failed("PyTorchJobFailed", "Job digits has failed because it has reached"
                                  " the specified backoff limit")), "retries-exhausted"),
        (job("PyTorchJob", failed("PyTorchJobFailed", "1 Master replica(s) failed.")), "failed"),
        (job("MPIJob", failed("BackoffLimitExceeded/", "Job has reached the specified backoff"
                              " limit: ")), "retries-exhausted"),
        (job("MPIJob", failed("BackoffLimitExceeded/Evicted")), "retries-exhausted"),
        (job("MPIJob", failed("DeadlineExceeded")), "deadline"),
        (job("MPIJob", failed("MPIJobEvicted", "1/2 workers are evicted")), "failed"),
        (job("JobSet", failed("FailedJobs")), "failed"),
        (job("JobSet", failed("ReachedMaxRestarts")), "retries-exhausted"),
        (job("JobSet", failed("FailJobSetFailurePolicyAction")), "failed"),
        (job("TrainJob", failed("TrainingRuntimeNotSupported")), "invalid-spec"),
        (job("TrainJob", failed("DeadlineExceeded")), "deadline"),
        (job("TrainJob", failed("ReachedMaxRestarts")), "retries-exhausted"),
        (job("Job", failed("BackoffLimitExceeded")), "retries-exhausted"),
        (job("Job", failed("DeadlineExceeded")), "deadline"),
        (job("Job", failed("PodFailurePolicy")), "failed"),
        (job("RayJob", jobDeploymentStatus="Failed", reason="DeadlineExceeded"), "deadline"),
        (job("RayJob", jobDeploymentStatus="ValidationFailed", reason="ValidationFailed"),
         "invalid-spec"),
        (job("RayJob", jobDeploymentStatus="Failed", reason="AppFailed"), "failed"),
        (job("JobSet", condition("Completed", reason="AllJobsCompleted")), "succeeded"),
        (job("Job", condition("Complete", reason="CompletionsReached")), "succeeded"),
        (job("JobSet", condition("Suspended", reason="SuspendedJobs")), "suspended"),
        (job("JobSet", condition("RestartingJobSet", reason="DefaultFailurePolicy")), "restarting"),
        (job("JobSet"), "operator-absent"),
        (job("JobSet", replicatedJobsStatus=[counts("driver", active=1)]), "starting"),
        (job("PyTorchJob", CREATED, condition("Running")), "running"),
    ],
    ids=lambda found: found if isinstance(found, str) else "",
)  # fmt: skip
def test_causes_by_the_reasons_of_other_operators(found: Job, cause: str) -> None:
    """None of them writes ``observedGeneration``, which is no change that nobody has seen."""
    assert why(found.kind, found).cause == cause


def test_who_is_asked_for_where_nobody_has_seen_a_job() -> None:
    fix = why("JobSet", job("JobSet")).fix
    assert fix == (
        "kubectl get deployments -A -l app.kubernetes.io/name=jobset shows whether the operator of"
        " JobSet runs"
    )


def test_what_counts_say_of_a_jobset_that_runs() -> None:
    found = job("JobSet", replicatedJobsStatus=[counts("driver", active=1, ready=1),
                                                counts("worker")])  # fmt: skip
    text = why("JobSet", found).text
    assert text == (
        "JobSet digits is running: driver 1 of 1 Jobs ready, worker 0 of 2 Jobs ready; worker waits"
        " until driver is Ready"
    )


def test_a_jobset_fails_by_the_deadline_of_one_of_its_jobs() -> None:
    child = decode(
        {
            "metadata": {"name": "digits-driver-0", "uid": "uid-child"},
            "status": {"conditions": [failed("DeadlineExceeded", "Job was active too long")]},
        },
        Workload,
    )
    found = why("JobSet", job("JobSet", failed("FailedJobs")), children=[child])
    assert found.cause == "deadline"
    assert found.evidence[1] == (
        "condition Failed=True of Job digits-driver-0: DeadlineExceeded: Job was active too long"
    )


def test_events_say_how_pods_ended_that_are_deleted() -> None:
    def told(reason: str, message: str, kind: str = "Normal") -> Any:
        found = builders.event(message, reason=reason, about=("PyTorchJob", "digits"))
        involved = replace(found.involved_object, uid="uid-job")
        return replace(found, involved_object=involved, type=kind)

    events = [
        told("ExitedWithCode", "Pod: train.digits-worker-0 exited with code 0"),
        told("ExitedWithCode", "Pod: train.digits-master-0 exited with code 1"),
        told("SuccessfulDeletePod", "Deleted pod: digits-master-0"),
    ]
    limit = "Job digits has failed because it has reached the specified backoff limit"
    found = why("PyTorchJob", job("PyTorchJob", failed("PyTorchJobFailed", limit)), events=events)
    assert found.evidence[1:] == (
        "event ExitedWithCode: Pod: train.digits-master-0 exited with code 1",
    )


# -- queues ---------------------------------------------------------------------------------------


def workload(*conditions: Any, active: bool = True, **status: Any) -> Queued:
    return decode(
        {
            "metadata": {"name": "jobset-digits-1", "uid": "uid-workload"},
            "spec": {"queueName": "lab", "active": active},
            "status": {"conditions": list(conditions), **status},
        },
        Queued,
    )


NO_QUOTA = condition("QuotaReserved", "False", "WaitingForQuota", "insufficient unused quota")
QUOTA = condition("QuotaReserved", reason="QuotaReserved")


@pytest.mark.parametrize(
    ("queued", "cause", "words"),
    [
        (workload(), "waiting-for-queue", "Waiting in queue lab of Kueue"),
        (workload(NO_QUOTA), "waiting-for-queue", "WaitingForQuota: insufficient unused quota"),
        (
            workload(NO_QUOTA, condition("Evicted", reason="Preempted", message="for another")),
            "waiting-for-queue",
            "after an eviction (Preempted)",
        ),
        (
            workload(QUOTA, admissionChecks=[{"name": "budget", "state": "Pending"}]),
            "waiting-for-queue",
            "admission checks: budget is Pending",
        ),
        (workload(NO_QUOTA, active=False), "stopped-in-queue", "is not active"),
        (
            workload(QUOTA, condition("Evicted", reason="PodsReadyTimeout", message="too slow")),
            "evicted-from-queue",
            "Evicted from queue lab: PodsReadyTimeout: too slow",
        ),
        (workload(QUOTA, condition("Admitted")), "suspended", "is suspended"),
        (None, "suspended", "is suspended"),
    ],
)
def test_what_a_queue_says_of_a_job_that_it_holds(
    queued: Queued | None, cause: str, words: str
) -> None:
    found = why("JobSet", job("JobSet", condition("Suspended")), workload=queued)
    assert found.cause == cause
    assert words in found.text


def test_the_place_in_the_queue_is_said() -> None:
    found = why(
        "JobSet",
        job("JobSet", condition("Suspended")),
        workload=workload(NO_QUOTA),
        place=QueuePlace(1, 2),
    )
    assert "2 are before it" in found.text
    assert found.evidence[0] == (
        "condition QuotaReserved=False of Workload jobset-digits-1: WaitingForQuota: insufficient"
        " unused quota"
    )


# -- kinds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "kind"), [("trainjob", "TrainJob"), ("jobs.batch", "Job"),
                                            ("rayjobs", "RayJob"), ("job", "Job")])  # fmt: skip
def test_other_kinds_by_their_names(word: str, kind: str) -> None:
    assert [served.kind.definition.kind for served in named(word)] == [kind]


def test_roles_and_ranks_of_other_kinds() -> None:
    index = {"batch.kubernetes.io/job-completion-index": "2"}
    assert BATCH_JOB.place(index) == ("pod", 2)
    assert RAY_JOB.place({}) == ("submitter", 0)
    assert kind_of(job("RayJob")) is RAY_JOB
    assert kind_of(job("Job")) is None
