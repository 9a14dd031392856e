"""Plans of a Job, by tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from traincrew.engine.objects import AnyObject
from traincrew.local.controllers.common import format_time
from traincrew.local.controllers.job import indexes as ix
from traincrew.local.controllers.job.backoff import Backoff
from traincrew.local.controllers.job.failure_policy import evaluate, success_message
from traincrew.local.controllers.job.model import TRACKING, Plan
from traincrew.local.controllers.job.plan import plan_job

NOW = 1_700_000_000.0
BACKOFF_MESSAGE = "Job has reached the specified backoff limit"


def job(status: dict[str, Any] | None = None, **spec: Any) -> AnyObject:
    meta = spec.pop("metadata", {})
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {
            "restartPolicy": spec.pop("restartPolicy", "Never"),
            "containers": [{"name": "main"}],
        },
    }
    return msgspec.convert(
        {
            "metadata": {"name": "pi", "namespace": "default", "uid": "J", "generation": 1} | meta,
            "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "template": template}
            | spec,
            "status": status or {},
        },
        AnyObject,
    )


def pod(
    uid: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    code: int | None = None,
    ended: float = NOW,
    **more: Any,
) -> AnyObject:
    annotations = {} if index is None else {ix.INDEX: str(index)}
    annotations |= more.pop("annotations", {})
    metadata: dict[str, Any] = {
        "name": f"pi-{uid}",
        "namespace": "default",
        "uid": uid,
        "annotations": annotations,
        "creationTimestamp": format_time(NOW - 60),
        "finalizers": [TRACKING] if more.pop("tracked", True) else [],
    }
    if more.pop("terminating", False):
        metadata |= {
            "deletionTimestamp": format_time(NOW + 30),
            "deletionGracePeriodSeconds": 30,
        }
    status: dict[str, Any] = {"phase": phase}
    if phase in {"Succeeded", "Failed"}:
        code = (1 if phase == "Failed" else 0) if code is None else code
        status["containerStatuses"] = [
            {
                "name": "main",
                "state": {"terminated": {"exitCode": code, "finishedAt": format_time(ended)}},
            }
        ]
    elif more.pop("ready", phase == "Running"):
        status["conditions"] = [
            {"type": "Ready", "status": "True", "lastTransitionTime": format_time(NOW - 50)}
        ]
    status |= more.pop("status", {})
    assert not more
    return msgspec.convert({"metadata": metadata, "status": status}, AnyObject)


def decide(subject: AnyObject, *pods: AnyObject, now: float = NOW) -> Plan:
    return plan_job(subject, pods, now, Backoff())


def last_status(plan: Plan, subject: AnyObject) -> dict[str, Any]:
    return plan.final_status or plan.status or subject.status


def conditions(plan: Plan, subject: AnyObject) -> list[tuple[str, str, str]]:
    return [
        (item["type"], item["status"], item["reason"])
        for item in last_status(plan, subject).get("conditions", [])
    ]


def settle(subject: AnyObject, pods: list[AnyObject], now: float = NOW) -> tuple[Any, list[Plan]]:
    """Carry out plans on a small model of the server until nothing is left to do."""
    plans = []
    backoff = Backoff()
    for _ in range(20):
        plan = plan_job(subject, pods, now, backoff)
        backoff = plan.backoff
        gone = {item.pod.metadata.uid for item in plan.delete}
        released = {item.metadata.uid for item in plan.release} | {
            item.pod.metadata.uid for item in plan.delete if item.release
        }
        next_pods = []
        for item in pods:
            document = msgspec.to_builtins(item)
            meta = document["metadata"]
            if item.metadata.uid in released:
                meta["finalizers"] = []
            if item.metadata.uid in gone and not meta["finalizers"]:
                continue
            if item.metadata.uid in gone:
                meta["deletionTimestamp"] = format_time(now)
            next_pods.append(msgspec.convert(document, AnyObject))
        pods[:] = next_pods
        changed = bool(plan.create or gone or released)
        for status in (plan.status, plan.final_status):
            if status is not None:
                document = msgspec.to_builtins(subject)
                changed = changed or document["status"] != status
                document["status"] = status
                subject = msgspec.convert(document, AnyObject)
        plans.append(plan)
        for number, made in enumerate(plan.create):
            fresh = msgspec.convert({**made, "status": {"phase": "Pending"}}, AnyObject)
            document = msgspec.to_builtins(fresh)
            document["metadata"]["uid"] = f"new-{len(plans)}-{number}"
            pods.append(msgspec.convert(document, AnyObject))
        if not changed:
            return subject, plans
    raise AssertionError("the Job never settles")


# -- pods to make and delete ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        ({}, [], 1),
        ({"parallelism": 3, "completions": 5}, [], 3),
        ({"parallelism": 5, "completions": 3}, [], 3),
        ({"parallelism": 3, "completions": None}, [], 3),
        ({"parallelism": 0}, [], 0),
        ({"suspend": True}, [], 0),
        ({}, [pod("a")], 0),
        ({"parallelism": 3, "completions": 3}, [pod("a"), pod("b", "Succeeded")], 1),
        ({"parallelism": 2, "completions": None}, [pod("a", "Succeeded"), pod("b")], 0),
        # A terminating pod is replaced at once, unless the Job's policy is to wait for its end.
        ({}, [pod("a", terminating=True)], 0),  # its failure is counted first: back-off
        ({"podReplacementPolicy": "Failed"}, [pod("a", terminating=True)], 0),
        ({"parallelism": 1000, "completions": 1000}, [], 500),
    ],
)
def test_number_of_new_pods(spec: dict[str, Any], pods: list[AnyObject], expected: int) -> None:
    assert len(decide(job(**spec), *pods).create) == expected


def test_a_pod_has_the_labels_and_fields_of_upstream() -> None:
    (made,) = decide(job()).create

    assert made["metadata"] == {
        "namespace": "default",
        "generateName": "pi-",
        "finalizers": ["batch.kubernetes.io/job-tracking"],
        "labels": {
            "app": "a",
            "batch.kubernetes.io/controller-uid": "J",
            "batch.kubernetes.io/job-name": "pi",
            "controller-uid": "J",
            "job-name": "pi",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "pi",
                "uid": "J",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_a_pod_of_an_indexed_job_has_its_index() -> None:
    subject = job(completionMode="Indexed", completions=3, parallelism=3)
    pods = [pod("a", index=0), pod("b", "Succeeded", index=1)]

    (made,) = decide(subject, *pods).create

    assert made["metadata"]["generateName"] == "pi-2-"
    assert made["metadata"]["annotations"][ix.INDEX] == "2"
    assert made["metadata"]["labels"][ix.INDEX] == "2"
    assert made["spec"]["hostname"] == "pi-2"
    assert made["spec"]["containers"][0]["env"] == [
        {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {
                "fieldRef": {
                    "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"
                }
            },
        }
    ]
    assert "env" not in subject.spec["template"]["spec"]["containers"][0]


def test_scaling_down_deletes_the_least_useful_pod_without_counting_it_as_failed() -> None:
    subject = job({"startTime": format_time(NOW - 60)}, parallelism=1, completions=3)
    pods = [pod("ready"), pod("starting", ready=False), pod("pending", "Pending")]

    plan = decide(subject, *pods)

    assert {item.pod.metadata.uid for item in plan.delete} == {"starting", "pending"}
    assert {item.release for item in plan.delete} == {TRACKING}
    assert plan.final_status is not None
    assert plan.final_status["active"] == 1
    assert "failed" not in plan.final_status


def test_two_pods_with_one_index_are_one_too_many() -> None:
    subject = job(completionMode="Indexed", completions=2, parallelism=2)
    pods = [pod("a", index=0), pod("b", index=0, ready=False), pod("c", index=7)]

    plan = decide(subject, *pods)

    assert {item.pod.metadata.uid for item in plan.delete} == {"b", "c"}
    assert plan.create == []  # one thing at a time


def test_names_are_cut_so_that_the_random_part_fits() -> None:
    subject = job(metadata={"name": "n" * 63}, completionMode="Indexed")

    (made,) = decide(subject).create

    assert made["metadata"]["generateName"] == "n" * 55 + "-0-"


# -- success -------------------------------------------------------------------------------------


def test_success_is_counted_before_it_is_declared() -> None:
    subject = job({"startTime": format_time(NOW - 60), "active": 1, "ready": 1, "terminating": 0})

    plan = decide(subject, pod("a", "Succeeded"))

    assert plan.status is not None
    assert plan.status["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    assert [item["type"] for item in plan.status["conditions"]] == ["SuccessCriteriaMet"]
    assert [item.metadata.uid for item in plan.release] == ["a"]
    assert plan.final_status == {
        "startTime": format_time(NOW - 60),
        "completionTime": format_time(NOW),
        "succeeded": 1,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "CompletionsReached",
                "message": "Reached expected number of succeeded pods",
                "lastTransitionTime": format_time(NOW),
                "lastProbeTime": format_time(NOW),
            }
            for kind in ("SuccessCriteriaMet", "Complete")
        ],
    }
    assert [(event.reason, event.message) for event in plan.events] == [
        ("Completed", "Job completed")
    ]


def test_a_finished_job_is_left_alone() -> None:
    done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}

    plan = decide(job(done), pod("late"))

    assert (plan.create, plan.delete, plan.status, plan.final_status) == ([], [], None, None)
    assert [item.metadata.uid for item in plan.release] == ["late"]


def test_any_success_is_enough_without_completions() -> None:
    subject = job(completions=None, parallelism=2)

    running = decide(subject, pod("a", "Succeeded"), pod("b"))
    finished = decide(subject, pod("a", "Succeeded"), pod("b", "Failed"))

    assert conditions(running, subject) == []
    assert ("Complete", "True", "CompletionsReached") in conditions(finished, subject)


def test_zero_completions_are_complete_at_once() -> None:
    subject = job(completions=0)

    assert ("Complete", "True", "CompletionsReached") in conditions(decide(subject), subject)


def test_indexes_that_succeeded_are_listed() -> None:
    subject = job(completionMode="Indexed", completions=6, parallelism=6)
    pods = [pod(str(i), "Succeeded", index=i) for i in (0, 1, 2, 4, 5)] + [pod("3", index=3)]

    subject, _ = settle(subject, pods)

    assert subject.status["completedIndexes"] == "0-2,4,5"
    assert subject.status["succeeded"] == 5


# -- failure and back-off ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "since", "expected"),
    [(1, 0, 10), (1, 4, 6), (2, 0, 20), (3, 0, 40), (6, 0, 320), (7, 0, 600), (7, 599, 1)],
)
def test_back_off_doubles_from_ten_seconds_to_ten_minutes(
    failures: int, since: float, expected: float
) -> None:
    subject = job(backoffLimit=20)
    pods = [pod(str(i), "Failed", ended=NOW - since - i) for i in range(failures)]

    plan = decide(subject, *pods)

    assert plan.create == []
    assert plan.requeue_at == NOW + expected
    after = plan_job(subject, pods, NOW + expected, plan.backoff)
    assert len(after.create) == 1


def test_a_success_resets_the_back_off_of_earlier_failures() -> None:
    subject = job(completions=3, parallelism=1)
    pods = [pod("a", "Failed", ended=NOW - 5), pod("b", "Succeeded", ended=NOW - 1)]

    assert len(decide(subject, *pods).create) == 1


def test_too_many_failures_fail_the_job_in_two_steps() -> None:
    subject = job(backoffLimit=1, parallelism=3, completions=3)
    pods = [pod("a", "Failed"), pod("b", "Failed"), pod("c"), pod("d", terminating=True)]

    plan = decide(subject, *pods)

    assert [item.pod.metadata.uid for item in plan.delete] == ["c"]
    assert plan.create == []
    assert conditions(plan, subject) == [("FailureTarget", "True", "BackoffLimitExceeded")]
    assert plan.final_status is not None
    assert plan.final_status["failed"] == 4  # who was still running failed too
    assert plan.final_status["terminating"] == 2
    assert plan.events == []

    subject, plans = settle(subject, pods[:3])
    assert [item["type"] for item in subject.status["conditions"]] == ["FailureTarget", "Failed"]
    assert subject.status["conditions"][1]["message"] == BACKOFF_MESSAGE
    assert [(event.type, event.reason, event.message) for event in plans[-2].events] == [
        ("Warning", "BackoffLimitExceeded", BACKOFF_MESSAGE)
    ]


def test_restarts_in_place_count_with_restart_policy_on_failure() -> None:
    subject = job(backoffLimit=2, restartPolicy="OnFailure")
    restarted = {"containerStatuses": [{"name": "main", "restartCount": 2, "state": {}}]}

    plan = decide(subject, pod("a", status=restarted))

    assert conditions(plan, subject) == [("FailureTarget", "True", "BackoffLimitExceeded")]


def test_a_pod_deleted_by_a_user_counts_as_failed_once() -> None:
    subject = job()
    pods = [pod("a", terminating=True)]

    subject, _ = settle(subject, pods, now=NOW + 60)

    assert subject.status["failed"] == 1


def test_the_deadline() -> None:
    subject = job({"startTime": format_time(NOW - 30)}, activeDeadlineSeconds=60)

    early = decide(subject, pod("a"))
    late = decide(subject, pod("a"), now=NOW + 30)

    assert early.requeue_at == NOW + 30
    assert early.delete == []
    assert conditions(late, subject) == [("FailureTarget", "True", "DeadlineExceeded")]
    assert last_status(late, subject)["conditions"][0]["message"] == (
        "Job was active longer than specified deadline"
    )


# -- exactly once --------------------------------------------------------------------------------


def test_a_crash_between_any_two_steps_neither_loses_nor_doubles_a_count() -> None:
    start = job(completions=3, parallelism=3)
    for stop_after in ("nothing", "status", "release", "final"):
        subject, pods = start, [pod("a", "Succeeded"), pod("b", "Failed"), pod("c")]
        plan = decide(subject, *pods)
        document = msgspec.to_builtins(subject)
        if stop_after != "nothing":
            document["status"] = plan.status
        if stop_after in {"release", "final"}:
            gone = {item.metadata.uid for item in plan.release}
            pods = [
                pod(item.metadata.uid, item.status["phase"], tracked=item.metadata.uid not in gone)
                for item in pods
            ]
        if stop_after == "final":
            document["status"] = plan.final_status
        subject, _ = settle(msgspec.convert(document, AnyObject), pods, now=NOW + 100)

        assert (subject.status["succeeded"], subject.status["failed"]) == (1, 1), stop_after
        assert subject.status["uncountedTerminatedPods"] == {}


def test_five_hundred_at_a_time() -> None:
    subject = job(completions=1200, parallelism=1200)
    pods = [pod(str(i), "Succeeded") for i in range(1200)]

    plan = decide(subject, *pods)

    assert plan.status is not None
    assert len(plan.status["uncountedTerminatedPods"]["succeeded"]) == 500
    subject, _ = settle(subject, pods)
    assert subject.status["succeeded"] == 1200
    assert subject.status["conditions"][-1]["type"] == "Complete"


def rule(action: str, **more: Any) -> dict[str, Any]:
    return {"action": action} | more


CODES = {"operator": "In", "values": [42]}


# -- suspend -------------------------------------------------------------------------------------


def test_suspend_and_resume() -> None:
    running = {"startTime": format_time(NOW - 60), "active": 1, "ready": 1, "terminating": 0}

    suspended = decide(job(running, suspend=True), pod("a"))

    assert [item.release for item in suspended.delete] == [TRACKING]
    assert suspended.final_status is not None
    assert "startTime" not in suspended.final_status
    assert conditions(suspended, job()) == [("Suspended", "True", "JobSuspended")]
    assert [event.reason for event in suspended.events] == ["Suspended"]

    resumed = decide(job(suspended.final_status, suspend=False), now=NOW + 10)

    assert len(resumed.create) == 1
    assert resumed.final_status is not None
    assert resumed.final_status["startTime"] == format_time(NOW + 10)
    assert conditions(resumed, job()) == [("Suspended", "False", "JobResumed")]
    assert [event.reason for event in resumed.events] == ["Resumed"]


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_pods_deleted_by_suspension_cause_no_back_off(phase: str) -> None:
    subject = job(parallelism=2, completions=2)

    plan = decide(subject, pod("a", phase, tracked=False, terminating=True))

    assert len(plan.create) == 2
    assert "failed" not in last_status(plan, subject)


def test_suspending_fails_no_index_and_no_job() -> None:
    subject = job(
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        backoffLimitPerIndex=0,
        backoffLimit=2**31 - 1,
        podFailurePolicy={"rules": [rule("FailJob", onExitCodes=CODES)]},
        podReplacementPolicy="TerminatingOrFailed",
    )
    ended = pod("a", "Failed", index=0, code=42, tracked=False, terminating=True)

    plan = decide(subject, ended, pod("b", index=1))

    assert [item["metadata"]["generateName"] for item in plan.create] == ["pi-0-"]
    assert last_status(plan, subject)["failedIndexes"] == ""
    assert conditions(plan, subject) == []


def test_a_job_created_suspended_has_no_start_time() -> None:
    plan = decide(job(suspend=True, activeDeadlineSeconds=5))

    assert plan.final_status is not None
    assert "startTime" not in plan.final_status
    assert plan.requeue_at is None


def test_a_job_that_is_being_deleted_creates_no_pods_and_releases_its_pods() -> None:
    subject = job(metadata={"deletionTimestamp": format_time(NOW)}, completions=2, parallelism=2)

    plan = decide(subject, pod("a"))

    assert plan.create == []
    assert [item.metadata.uid for item in plan.release] == ["a"]


def test_a_job_managed_by_another_controller_is_not_touched() -> None:
    plan = decide(job(managedBy="kueue.x-k8s.io/multikueue"))

    assert plan == Plan(backoff=Backoff())


# -- policies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "action", "message"),
    [
        ([rule("Count", onExitCodes={"operator": "In", "values": [1]})], "", ""),
        (
            [rule("FailJob", onExitCodes=CODES)],
            "FailJob",
            (
                "Container main for pod default/pi-a failed with exit code 42 "
                "matching FailJob rule at index 0"
            ),
        ),
        ([rule("Ignore", onExitCodes=CODES), rule("FailJob", onExitCodes=CODES)], "Ignore", None),
        ([rule("FailJob", onExitCodes={**CODES, "containerName": "other"})], "", ""),
        ([rule("Count", onExitCodes={"operator": "NotIn", "values": [42]})], "", ""),
        (
            [
                rule("Ignore", onExitCodes={"operator": "In", "values": [7]}),
                rule("FailJob", onPodConditions=[{"type": "DisruptionTarget"}]),
            ],
            "FailJob",
            "Pod default/pi-a has condition DisruptionTarget matching FailJob rule at index 1",
        ),
    ],
)
def test_pod_failure_policy(rules: list[Any], action: str, message: str | None) -> None:
    disrupted = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    failed = pod("a", "Failed", code=42, status=disrupted)

    verdict = evaluate({"rules": rules}, failed)

    assert verdict.action == action
    if message is not None:
        assert verdict.message == message


def test_fail_job_and_ignore() -> None:
    fail = job(podFailurePolicy={"rules": [rule("FailJob", onExitCodes=CODES)]})
    ignore = job(podFailurePolicy={"rules": [rule("Ignore", onExitCodes=CODES)]}, backoffLimit=0)
    failed = pod("a", "Failed", code=42, ended=NOW - 60)

    assert conditions(decide(fail, failed), fail) == [
        ("FailureTarget", "True", "PodFailurePolicy"),
        ("Failed", "True", "PodFailurePolicy"),
    ]
    ignored = decide(ignore, failed)
    assert len(ignored.create) == 1
    assert "failed" not in last_status(ignored, ignore)
    assert [item.metadata.uid for item in ignored.release] == ["a"]


def test_each_index_has_its_own_limit() -> None:
    subject = job(
        completionMode="Indexed",
        completions=2,
        parallelism=2,
        backoffLimitPerIndex=1,
        backoffLimit=2**31 - 1,
    )
    first = pod("a", "Failed", index=0, ended=NOW - 4)

    waiting = decide(subject, first, pod("b", index=1))
    assert waiting.create == []
    assert waiting.requeue_at == NOW + 6
    assert waiting.release == []  # it carries the count until its successor is there

    retried = decide(subject, first, pod("b", index=1), now=NOW + 6)
    (made,) = retried.create
    assert made["metadata"]["annotations"][ix.INDEX_FAILURES] == "1"

    second = pod("c", "Failed", index=0, annotations={ix.INDEX_FAILURES: "1"})
    pods = [first, second, pod("b", "Succeeded", index=1)]
    subject, _ = settle(subject, pods, now=NOW + 60)
    assert subject.status["failedIndexes"] == "0"
    assert subject.status["completedIndexes"] == "1"
    assert subject.status["conditions"][-1]["reason"] == "FailedIndexes"
    assert subject.status["failed"] == 2


def test_fail_index_and_the_highest_number_of_failed_indexes() -> None:
    subject = job(
        completionMode="Indexed",
        completions=3,
        parallelism=3,
        backoffLimitPerIndex=5,
        backoffLimit=2**31 - 1,
        maxFailedIndexes=0,
        podFailurePolicy={"rules": [rule("FailIndex", onExitCodes=CODES)]},
    )

    plan = decide(subject, pod("a", "Failed", index=0, code=42), pod("b", index=1))

    assert conditions(plan, subject)[0] == ("FailureTarget", "True", "MaxFailedIndexesExceeded")
    assert last_status(plan, subject)["failedIndexes"] == "0"


@pytest.mark.parametrize(
    ("rules", "succeeded", "met"),
    [
        ([{"succeededIndexes": "0,2-3"}], {0, 2}, False),
        ([{"succeededIndexes": "0,2-3"}], {0, 2, 3}, True),
        ([{"succeededCount": 2}], {1, 4}, True),
        ([{"succeededIndexes": "0-3", "succeededCount": 2}], {0, 4}, False),
        ([{"succeededIndexes": "0-3", "succeededCount": 2}], {0, 3}, True),
    ],
)
def test_success_policy(rules: list[Any], succeeded: set[int], met: bool) -> None:
    assert (success_message({"rules": rules}, succeeded, 5) is not None) == met


def test_success_policy_ends_the_others_without_failures() -> None:
    subject = job(
        completionMode="Indexed",
        completions=3,
        parallelism=3,
        successPolicy={"rules": [{"succeededIndexes": "0"}]},
    )
    pods = [pod("a", "Succeeded", index=0), pod("b", index=1), pod("c", index=2)]

    subject, plans = settle(subject, pods)

    assert len(plans[0].delete) == 2
    assert [item["type"] for item in subject.status["conditions"]] == [
        "SuccessCriteriaMet",
        "Complete",
    ]
    assert subject.status["conditions"][0]["message"] == "Matched rules at index 0"
    assert "failed" not in subject.status


# -- indexes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [
        (set(), ""),
        ({3}, "3"),
        ({1, 2}, "1,2"),
        ({0, 1, 2, 4, 6, 7, 8}, "0-2,4,6-8"),
    ],
)
def test_indexes_as_text_and_back(indexes: set[int], expected: str) -> None:
    assert ix.text(indexes) == expected
    assert ix.parse(expected, 100) == indexes


def test_indexes_out_of_range_are_dropped() -> None:
    assert ix.parse("0-9,junk,12", 4) == {0, 1, 2, 3}
