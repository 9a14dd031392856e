"""What is known of pods: it is the same for every view, also when they are gone."""

from typing import Any

from cli.builders import condition, ended, job, pod, running, workload
from traincrew.cli.display import states
from traincrew.cli.jobview.jobstate import UNSEEN, job_state
from traincrew.cli.jobview.pods import by_role, explaining, is_running, kind_of, known

MX = "kubeflow.org/v1alpha1"


def failed(name: str, **more: Any) -> Any:
    return pod(name, "Failed", ended(3), role="master", **more)


def test_a_pod_that_is_gone_still_explains_the_failure() -> None:
    before = known(failed("digits-master-x"))
    ending = known(failed("digits-master-x", deleting=True), before)
    gone = known(ending.pod, ending, gone=True)
    assert gone.failure == before.failure is not None
    document = job("Failed", version=MX, conditions=[condition("Failed", message="no retries")])
    other = known(pod("digits-workerset-ws0-0", "Running", running(), role="workerset"))
    assert explaining(kind_of(document), document, [other, gone]) == gone


def test_a_pod_that_was_deleted_has_not_failed_by_that() -> None:
    assert known(pod("x", "Failed", ended(137), deleting=True)).failure is None


def test_a_pod_that_is_gone_does_not_run() -> None:
    seen = known(pod("x", "Running", running()))
    assert is_running(seen)
    assert not is_running(known(seen.pod, seen, gone=True))


def test_pods_of_an_object_without_roles_are_those_of_its_children() -> None:
    document = job(kind="Job", name="digits")
    children = [workload("StatefulSet", "digits-ws0", replicas=2)]
    pods = [
        known(pod("digits-ws0-0", "Running", running(), owned_by=("StatefulSet", "digits-ws0"))),
        known(pod("digits-x", "Running", running(), owned_by=("Job", "digits"))),
    ]
    roles = by_role(kind_of(document), document, pods, children)
    assert {name: (role.desired, len(role.pods)) for name, role in roles.items()} == {
        "ws0": (2, 1),
        "x": (1, 1),
    }


def test_a_status_without_a_phase_has_that_of_its_most_important_condition() -> None:
    conditions = [condition("Running"), condition("Failed", reason="Deadline", message="too\nlate")]
    state = job_state(job(conditions=conditions))
    assert (state.phase, state.message, state.end) == ("Failed", "too late", "Failed")
    assert state.failure == "Deadline: too late"
    assert job_state(job()) == UNSEEN


def test_an_mxjob_that_is_done_is_marked_by_its_end() -> None:
    def sign(end: str) -> states.Sign:
        return job_state(job("Done", kind="MxJob", conditions=[condition(end)])).sign

    assert sign("Succeeded") == states.GOOD
    assert sign("Failed") == states.BAD
    assert job_state(job("Creating", kind="MxJob")).sign == states.WAIT
