"""Lines for users, from watch events and log lines alone."""

from typing import Any

import pytest

from cli.builders import condition, ended, event, job, pod, running, waiting, workload
from plan.shared.test_torchrun import output
from traincrew.cli.display.lines import Line
from traincrew.cli.display.objects import Pod
from traincrew.cli.display.rows import drawn
from traincrew.cli.terminal.block import block
from traincrew.cli.terminal.summary import summary
from traincrew.cli.terminal.view import TerminalView
from traincrew.cli.watching.outcome import exit_code

MASTER = "digits-master-x"
WORKER = "digits-workerset-ws0-0"


def texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


def followed(**options: bool) -> TerminalView:
    view = TerminalView(**options)
    view.follow("ChainerJob", "default", "digits", 0.0)
    view.job(job("Created"), 0.1)
    view.workload(workload("Job", "digits-master"), 0.1)
    view.workload(workload("StatefulSet", "digits-workerset-ws0", replicas=2), 0.1)
    return view


def master(phase: str, *containers: dict[str, Any], **more: Any) -> Pod:
    return pod(MASTER, phase, *containers, owned_by=("Job", "digits-master"), role="master", **more)


def worker(phase: str, *containers: dict[str, Any], **more: Any) -> Pod:
    return pod(WORKER, phase, *containers, owned_by=("StatefulSet", "digits-workerset-ws0"), **more)


def test_a_successful_run_shows_each_step_once() -> None:
    view = followed()
    shown: list[Line] = []
    shown += view.pod(worker("Pending", node=""), 0.2)
    shown += view.pod(worker("Pending", waiting("ContainerCreating")), 0.2)
    shown += view.pod(worker("Running", running()), 0.5)
    shown += view.pod(worker("Running", running()), 0.6)
    shown += view.pod(master("Running", running()), 0.9)
    shown += view.job(job("Running", conditions=[condition("Running")]), 0.9)
    shown += view.log(f"uid-{MASTER}", "chainer", "epoch 1")
    shown += view.pod(master("Succeeded", ended(0)), 4.0)
    shown += view.job(job("Succeeded", conditions=[condition("Succeeded")]), 4.1)
    assert texts(shown) == [
        f"{WORKER}: running",
        f"{MASTER}: running",
        "digits: Running",
        "epoch 1",
        f"{MASTER}: finished: exit code 0",
        "digits: Succeeded",
    ]
    assert shown[3].source == MASTER
    assert view.finished
    assert exit_code(view) == 0


def test_verbose_shows_the_steps_every_pod_passes_through() -> None:
    view = followed(verbose=True)
    shown = view.pod(worker("Pending", node=""), 0.2)
    shown += view.pod(worker("Pending", init=[running("hostfile")]), 0.3)
    shown += view.event(event("Started it", reason="Started", type_="Normal"), 0.3)
    assert texts(shown) == [
        f"{WORKER}: pending",
        f"{WORKER}: init 1/1: hostfile",
        f"pod {MASTER}: Started it (Started)",
    ]


def test_the_reason_why_a_pod_does_not_start_is_shown_in_plain_words() -> None:
    view = followed()
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    unschedulable = [condition("PodScheduled", status="False", message=message)]
    assert texts(view.pod(worker("Pending", node="", conditions=unschedulable), 1)) == [
        f"{WORKER}: waiting for a node: {message}"
    ]
    missing = waiting("CreateContainerConfigError", 'configmap "settings" not found')
    assert texts(view.pod(worker("Pending", missing), 2)) == [
        f'{WORKER}: its configuration is incomplete: configmap "settings" not found'
    ]
    unknown = waiting("ErrImagePull", "no environment\nfor image x")
    assert texts(view.pod(worker("Pending", unknown), 2)) == [
        f"{WORKER}: image cannot be prepared: no environment for image x"
    ]
    failed_init = pod(WORKER, "Pending", init=[ended(3, "prepare")])
    assert texts(view.pod(failed_init, 2)) == [f"{WORKER}: init container prepare: exit code 3"]


def test_a_restart_is_shown_with_its_reason() -> None:
    view = followed()
    view.pod(worker("Running", running()), 1)
    before = {"terminated": {"exitCode": 7}}
    shown = view.pod(worker("Running", waiting("CrashLoopBackOff", lastState=before)), 2)
    shown += view.pod(worker("Running", running(restarts=1, lastState=before)), 12)
    assert texts(shown) == [
        f"{WORKER}: waiting to restart after exit code 7",
        f"{WORKER}: running again (restart 1)",
    ]


def test_warnings_are_shown_once_and_counted() -> None:
    view = followed()
    shown = view.event(event("back-off restarting"), 1)
    shown += view.event(event("back-off restarting", count=2), 2)
    shown += view.event(event("back-off restarting", count=2), 3)
    assert texts(shown) == [f"warning: pod {MASTER}: back-off restarting (BackOff)"]
    assert next(iter(view.warnings.values())).count == 2


def test_normal_events_need_verbose() -> None:
    assert followed().event(event("Started", type_="Normal"), 1) == []


def test_containers_are_named_when_a_pod_has_several() -> None:
    view = followed()
    view.pod(pod(MASTER, "Running", app=["chainer", "sidecar"]), 1)
    assert view.log(f"uid-{MASTER}", "sidecar", "hello")[0].source == f"{MASTER}/sidecar"


def test_pull_progress_is_not_repeated() -> None:
    view = followed()
    shown = view.pull("chainer", "installing chainer", 1)
    shown += view.pull("chainer", "installing chainer", 2)
    assert texts(shown) == ["image chainer: installing chainer"]
    assert drawn(block(view, 2)[0], 80) == "chainer: installing chainer"


def test_reported_progress_is_a_line_for_each_tenth_where_no_block_shows_it() -> None:
    def shown(view: TerminalView) -> list[str]:
        lines = view.job(job("Running", progress={"percentage": 7}), 1)
        for percentage in (9, 10, 19, 45):
            progress = {"percentage": percentage, "estimatedRemainingSeconds": 100 - percentage,
                        "metrics": [{"name": "loss", "value": "0.41"}]}  # fmt: skip
            lines += view.job(job("Running", progress=progress), 2)
        return texts(lines)

    assert shown(followed()) == ["digits: Running"]
    assert shown(followed(progress=True)) == [
        "digits: Running",
        "digits: 7%  ~0:13 left",
        "digits: 10%  1:30 left  loss 0.41",
        "digits: 45%  0:55 left  loss 0.41",
    ]


def test_a_failed_job_ends_with_the_masters_exit_code_and_says_why() -> None:
    view = followed()
    view.pod(worker("Running", running()), 1)
    view.pod(master("Running", running()), 1)
    view.log(f"uid-{MASTER}", "chainer", "Traceback (most recent call last):")
    view.log(f"uid-{MASTER}", "chainer", "ValueError: no data")
    view.pod(master("Failed", ended(3)), 4)
    failed = condition("Failed", reason="BackoffLimitExceeded", message="Job has reached it")
    shown = view.job(job("Failed", conditions=[failed], message="Job has reached it"), 4.2)
    view.event(event("something odd"), 4.3)
    view.pod(worker("Running", running(), deleting=True), 4.4)
    assert texts(shown) == ["digits: Failed: Job has reached it"]
    assert exit_code(view) == 3
    assert texts(summary(view, 5.0)) == [
        "",
        "ChainerJob digits: Failed after 4.2 s",
        "  POD                     STATE                 RESTARTS  RAN",
        f"  {WORKER}  stopped with the job         0  4 s",
        f"  {MASTER}         exit code 3                  0  3 s",
        "Why: BackoffLimitExceeded: Job has reached it",
        f"Pod {MASTER}, container chainer: exit code 3",
        "Last lines of its log:",
        "  Traceback (most recent call last):",
        "  ValueError: no data",
        "Warnings:",
        f"  pod {MASTER}: BackOff: something odd",
    ]


def test_on_a_narrow_terminal_a_table_keeps_its_columns() -> None:
    view = followed()
    view.pod(worker("Running", running()), 1)
    view.pod(master("Succeeded", ended(0)), 4)
    table = texts(summary(view, 5.0, columns=50))[2:5]
    assert table == [
        "  POD              STATE          RESTARTS  RAN",
        "  workerset-ws0-0  still running         0  4 s",
        "  master-x         exit code 0           0  3 s",
    ]
    assert texts(summary(view, 5.0, columns=100)) == texts(summary(view, 5.0))


def ended_view(*, restarts: int = 0, code: int = 0) -> TerminalView:
    view = followed()
    view.pod(worker("Running", running()), 0.5)
    view.pod(worker("Running", running(), deleting=True), 4.0)
    phase = "Failed" if code else "Succeeded"
    view.pod(master(phase, ended(code, restarts=restarts, reason="OOMKilled")), 4.0)
    return view


def test_at_40_columns_a_table_leaves_out_what_matters_least() -> None:
    def table(view: TerminalView, columns: int) -> list[str]:
        lines = texts(summary(view, 5.0, columns=columns))[2:5]
        assert all(len(line) < columns for line in lines)
        return lines

    assert table(ended_view(), 80) == texts(summary(ended_view(), 5.0))[2:5]
    assert table(ended_view(), 40) == [
        "  POD              STATE",
        "  workerset-ws0-0  stopped with the job",
        "  master-x         exit code 0",
    ]
    # A restart is more important than the time.
    assert table(ended_view(restarts=2), 52) == [
        "  POD              STATE                 RESTARTS",
        "  workerset-ws0-0  stopped with the job         0",
        "  master-x         exit code 0                  2",
    ]
    assert table(ended_view(), 36) == [
        "  POD              STATE",
        "  workerset-ws0-0  stopped with th…",
        "  master-x         exit code 0",
    ]


def test_the_exit_code_of_a_deleted_pod_is_not_used() -> None:
    view = followed()
    view.pod(master("Running", running()), 1)
    view.pod(master("Running", running(), deleting=True), 2)
    view.pod(master("Failed", ended(143), deleting=True), 2)
    deadline = condition("Failed", reason="DeadlineExceeded", message="active longer than allowed")
    view.job(job("Failed", conditions=[deadline]), 2.2)
    assert exit_code(view) == 1
    assert "Why: DeadlineExceeded: active longer than allowed" in texts(summary(view, 3))


def test_a_job_that_never_ran_says_what_its_pods_wait_for() -> None:
    view = followed()
    view.pod(worker("Pending", waiting("ErrImagePull", "no environment for it")), 1)
    out = texts(summary(view, 3))
    assert out[1] == "ChainerJob digits: not finished (Created) after 3.0 s"
    view.job(job("Failed"), 3)
    out = texts(summary(view, 3))
    assert f"  {WORKER}: image cannot be prepared: no environment for it" in out


def test_the_newest_attempt_of_the_master_explains_the_failure() -> None:
    view = followed()
    for name, code, seconds in (("digits-master-a", 9, 1), ("digits-master-b", 4, 8)):
        attempt = pod(name, "Failed", ended(code, seconds=seconds), role="master",
                      owned_by=("Job", "digits-master"))  # fmt: skip
        view.pod(attempt, 1)
    view.pod(worker("Failed", ended(77, seconds=9)), 1)
    view.job(job("Failed"), 9)
    assert exit_code(view) == 4


def failed_workers(kind: str, message: str, *ends: tuple[str, int, int]) -> TerminalView:
    """A failed job of two workers: their names, exit codes and the second when each ended."""
    version, labels = PLACES[kind]
    view = TerminalView()
    view.follow(kind, "default", "digits", 0.0)
    for rank, (name, code, second) in enumerate(ends):
        of_rank = {key: value.format(rank=rank) for key, value in labels.items()}
        view.pod(pod(name, "Failed", ended(code, seconds=second, name="mxnet"), app=["mxnet"],
                     owned_by=(kind, "digits"), labels=of_rank), 1)  # fmt: skip
    view.job(job("Failed", kind=kind, version=version, message=message), 9)
    return view


PLACES = {
    "MxJob": ("mxnet.mlkube.io/v1beta1", {"job_type": "WORKER", "task_index": "{rank}"}),
    "ElasticJob": (
        "elastic.pytorch.org/v1alpha1",
        {"replica-type": "worker", "replica-index": "{rank}"},
    ),
    "Job": ("batch/v1", {"batch.kubernetes.io/job-completion-index": "{rank}"}),
}


@pytest.mark.parametrize("kind", PLACES)
def test_the_first_worker_to_end_explains_the_failure(kind: str) -> None:
    assert exit_code(failed_workers(kind, "it failed", ("a", 3, 2), ("b", 4, 5))) == 3
    assert exit_code(failed_workers(kind, "it failed", ("a", 3, 5), ("b", 4, 2))) == 4
    assert exit_code(failed_workers(kind, "it failed", ("a", 3, 2), ("b", 4, 2))) == 3


def test_the_pod_that_the_status_names_explains_the_failure() -> None:
    told = "Worker 1 failed: pod b on node n1: container mxnet exited with code 4; worker 0 failed:"
    view = failed_workers("MxJob", f"{told} pod a: container mxnet", ("a", 3, 2), ("b", 4, 5))
    assert exit_code(view) == 4
    assert "Pod b, container mxnet: exit code 4" in texts(summary(view, 9))


def test_out_of_memory_is_named() -> None:
    view = followed()
    shown = view.pod(master("Failed", ended(137, reason="OOMKilled")), 2)
    assert texts(shown) == [f"{MASTER}: exit code 137 (OOMKilled)"]


def test_the_last_output_of_a_failed_program_is_shown() -> None:
    view = followed()
    log = 'File "train.py", line 3\nValueError: no data\n-----\nmpiexec: 1 process has failed\n'
    view.pod(master("Failed", ended(1, message=log)), 2)
    view.job(job("Failed"), 3)
    shown = texts(summary(view, 3))
    assert f"Pod {MASTER}, container chainer: exit code 1: ValueError: no data" in shown


NEEDS = "needs the data"
JOB = ("ChainerJob", "digits")


def failed_with(log: list[str], message: str) -> TerminalView:
    """A job that failed by its master, whose message and event say why, too."""
    view = followed()
    view.pod(master("Running", running()), 1)
    for line in log:
        view.log(f"uid-{MASTER}", "chainer", line)
    view.pod(master("Failed", ended(3)), 4)
    view.job(job("Failed", conditions=[condition("Failed", reason="Limit", message=message)],
                 message=message), 4)  # fmt: skip
    view.event(event(f"Limit: {message}", reason="Failed", about=JOB), 4)
    return view


def test_the_reason_of_a_failure_is_shown_once() -> None:
    reason = f"limit reached; pod {MASTER} on node a: container chainer exited with code 3"
    view = failed_with([NEEDS], f"{reason}: {NEEDS}")
    assert texts(summary(view, 5.0))[-4:] == [
        "Why: Limit: limit reached",
        f"Pod {MASTER}, container chainer: exit code 3",
        "Last lines of its log:",
        f"  {NEEDS}",
    ]


def test_output_that_is_no_longer_in_the_log_is_kept() -> None:
    reason = (
        f"2 failed. pod {MASTER} on node a: container chainer exited with code 3 (Error): {NEEDS};"
        f" pod other: container chainer exited with code 3: {NEEDS}; and 4 more"
    )
    view = failed_with([], reason)
    assert texts(summary(view, 5.0))[-3:] == [
        "Why: Limit: 2 failed. pod other: container chainer exited with code 3; and 4 more",
        f"Pod {MASTER}, container chainer: exit code 3: {NEEDS}",
        "It wrote nothing to its log.",
    ]


def test_a_warning_that_repeats_its_jobs_message_is_not_shown() -> None:
    view = followed()
    view.job(job("Restarting", message="tried again (1/6)"), 1)
    again = event("tried again (1/6)", reason="Restarting", about=JOB)
    assert view.event(again, 1) == []
    view.job(job("Restarting", message="tried again (2/6)"), 2)
    again = event("tried again (2/6)", reason="Restarting", about=JOB, count=2)
    assert view.event(again, 2) == []
    view.job(job("Failed"), 3)
    assert texts(summary(view, 3))[-1:] == [
        "  chainerjob digits: Restarting: tried again (2/6) (x3)"
    ]


@pytest.mark.parametrize("name", ["exception", "exit", "recorded"])
def test_the_log_of_the_process_that_failed_is_shown_not_the_report_of_torchrun(name: str) -> None:
    lines = output(name).splitlines()
    view = failed_with(lines, "it failed")
    out = texts(summary(view, 5.0))
    shown = out[out.index("Last lines of its log:") + 1 :]
    assert not any("Root Cause" in line or "[rank0]" in line for line in shown)
    if name != "exit":
        assert shown[-1] == "  [rank1]: ValueError: my dataset is broken"
    else:
        assert shown[-3:] == [f"  rank {rank} started" for rank in (2, 0, 1)]


def test_a_job_deleted_by_hand_ends_the_run() -> None:
    view = followed()
    shown = view.job(job("Running"), 3, deleted=True)
    assert texts(shown) == ["digits: deleted before it finished"]
    assert view.finished
    assert exit_code(view) == 1


def test_several_jobs_are_told_apart() -> None:
    view = followed()
    view.follow("ChainerJob", "default", "other", 0.0)
    view.job(job("Succeeded", conditions=[condition("Succeeded")]), 1)
    before = view.finished
    view.job(job("Failed", name="other"), 2)
    assert (before, view.finished) == (False, True)
    assert exit_code(view) == 1


def test_nothing_is_shown_after_the_end() -> None:
    view = followed()
    done = job("Succeeded", conditions=[condition("Succeeded")])
    view.job(done, 1)
    assert view.job(done, 2) == []
    assert view.jobs[0].finished == 1


def test_scaling_down_at_the_end_keeps_the_desired_number() -> None:
    view = followed()
    view.workload(workload("StatefulSet", "digits-workerset-ws0", replicas=0), 2)
    assert "workerset-ws0 0/2" in drawn(block(view, 3)[0], 80)


def test_the_message_of_a_waiting_job_is_shown() -> None:
    view = followed()
    shown = view.job(job("Created", message="1/2 workers ready"), 1)
    shown += view.job(job("Created", message="1/2 workers ready"), 2)
    shown += view.job(job("Running", message="The master is running."), 3)
    shown += view.job(job("Running", message="The master and 2 workers are running."), 4)
    shown += view.job(job("Restarting", message="worker ws0-1 is gone"), 5)
    shown += view.job(job("Running", message="The master is running."), 6)
    assert texts(shown) == [
        "digits: 1/2 workers ready",
        "digits: Running",
        "digits: Restarting: worker ws0-1 is gone",
        "digits: Running",
    ]


def test_a_spec_without_effect_is_shown_once() -> None:
    view = followed()
    problem = condition("Synced", status="False", message='Resource "x" already exists')
    shown = view.job(job("Created", conditions=[problem]), 1)
    shown += view.job(job("Created", conditions=[problem]), 2)
    assert texts(shown) == ['digits: Resource "x" already exists']


def test_a_job_that_does_not_advance_is_a_warning_once() -> None:
    view = followed()
    why = "Rank 3 in pod digits-workers-3 is behind: it has done 12%."
    stalled = condition("Progressing", status="False", reason="RankBehind", message=why)
    shown = view.job(job("Running", conditions=[stalled]), 1)
    shown += view.job(job("Running", conditions=[stalled]), 2)
    shown += view.event(event(why, reason="RankBehind"), 3)
    good = condition("Progressing", message="The reports of the program advance.")
    shown += view.job(job("Running", conditions=[good]), 4)
    assert [each for each in texts(shown) if "Rank" in each] == [f"warning: digits: {why}"]


def test_batch_jobs_and_pods_can_be_waited_for() -> None:
    view = TerminalView()
    view.follow("Job", "default", "once", 0.0)
    view.follow("Pod", "default", "alone", 0.0)
    view.job(job(name="once", kind="Job", conditions=[condition("SuccessCriteriaMet")]), 1)
    shown = view.job(job(name="once", kind="Job", conditions=[condition("Complete")]), 1)
    shown += view.job(job("Failed", name="alone", kind="Pod", message="gone wrong"), 2)
    assert texts(shown) == ["once: Succeeded"]  # events of a pod are shown for the pod
    assert [record.phase for record in view.jobs] == ["Succeeded", "Failed"]


def test_a_long_message_is_shown_once() -> None:
    why = "no environment is defined for it; add one to your catalog of environments"
    view = followed()
    shown = view.event(event(f"Failed to pull image: {why}", reason="Failed"), 1)
    shown += view.pod(master("Pending", waiting("ErrImagePull", f"Failed to pull image: {why}")), 1)
    back_off = f"Back-off pulling image: Failed to pull image: {why}"
    shown += view.pod(master("Pending", waiting("ImagePullBackOff", back_off)), 2)
    shown += view.job(job("Created", message=f"Not running: Failed to pull image: {why}"), 3)
    assert texts(shown) == [
        f"warning: pod {MASTER}: Failed to pull image: {why} (Failed)",
        f"{MASTER}: image cannot be prepared",
        f"{MASTER}: image cannot be prepared, will try again: Back-off pulling image: …",
        "digits: Not running: …",
    ]


def test_the_kubelets_second_event_is_not_shown() -> None:
    assert followed().event(event("Error: ErrImagePull", reason="Failed"), 1) == []


def test_an_addition_to_a_known_message_is_shown() -> None:
    view = followed()
    view.event(event("Job has reached the specified backoff limit"), 1)
    more = "pod digits-master-x on node local: container chainer exited with code 1"
    message = f"Job has reached the specified backoff limit; {more}"
    assert texts(view.job(job("Failed", message=message), 2)) == [f"digits: Failed: … {more}"]


@pytest.mark.parametrize("attack", ["\x1b]0;owned\x07", "\x9b2J", "\u202e", "\0"])
def test_messages_do_not_control_the_terminal(attack: str) -> None:
    view = followed()
    failed = condition("Failed", reason="PodFailed", message=f"it{attack} failed")
    lines = view.event(event(f"something{attack} odd"), 1)
    lines += view.job(job("Failed", conditions=[failed], message=f"it{attack} failed"), 2)
    shown = [*texts(lines), *texts(summary(view, 5.0))]
    assert "digits: Failed: it failed" in shown
    assert any("something odd" in text for text in shown)
    assert all(text.isprintable() for text in shown)


def explained(
    *containers: dict[str, Any], init: list[dict[str, Any]] | None = None
) -> TerminalView:
    """A failed job whose master had these containers; "sidecar" is a native one."""
    view = followed()
    attempt = master(
        "Failed", *containers, init=init, app=["first", "chainer", "helper"],
        labels={"chainerjob.kubeflow.org/name": "digits"},
    )  # fmt: skip
    view.pod(attempt, 1)
    view.job(job("Failed"), 9)
    return view


def test_the_exit_code_is_that_of_the_program_whatever_ends_beside_it() -> None:
    view = explained(
        ended(3), ended(0, "first"), ended(143, "helper"),
        init=[ended(137, "sidecar", sidecar=True)],
    )  # fmt: skip

    assert exit_code(view) == 3
    record = view.failing_pod(view.jobs[0])
    assert record is not None
    assert record.failure is not None
    assert record.failure.container == "chainer"
    assert record.state.word == "chainer: exit code 3"


def test_the_exit_codes_of_init_containers_and_helpers_are_not_the_programs() -> None:
    assert exit_code(explained(init=[ended(7, "before")])) == 1
    assert exit_code(explained(ended(0), ended(9, "helper"))) == 1
    assert "before" in "\n".join(texts(summary(explained(init=[ended(7, "before")]), 9)))


def test_a_killed_sidecar_explains_nothing() -> None:
    view = explained(ended(0), init=[ended(137, "sidecar", sidecar=True)])

    assert view.failing_pod(view.jobs[0]) is None
    assert exit_code(view) == 1


def test_a_sidecar_that_ends_is_not_called_an_init_container_that_failed() -> None:
    state = {
        "name": "sidecar",
        "restartPolicy": "Always",
        "state": {"terminated": {"exitCode": 137}},
    }
    shown = master("Running", running(), init=[state])

    assert texts(followed().pod(shown, 1)) == [f"{MASTER}: running"]


def test_a_script_that_is_not_in_the_environment_is_named_once() -> None:
    """When its pod fails, not at each retry; and again at the end, where users look first."""
    view = followed()
    view.without_script = lambda path: f"{path} is not in the environment"
    said = "python3: can't open file '//train.py': [Errno 2] No such file or directory"
    shown = view.pod(master("Failed", ended(2, message=said)), 4)
    assert texts(shown) == [
        f"{MASTER}: exit code 2",
        "/train.py is not in the environment",
    ]
    again = pod("digits-master-y", "Failed", ended(2, message=said), role="master")
    assert len(view.pod(again, 9)) == 1
    failed = [condition("Failed", reason="BackoffLimitExceeded", message="it failed")]
    view.job(job("Failed", conditions=failed), 9)
    assert texts(summary(view, 9))[-1] == "What to do: /train.py is not in the environment"


def test_what_several_ranks_say_is_said_once() -> None:
    view = followed()
    view.pod(master("Running", running()), 1)
    for rank in range(3):
        for line in (f"hello from {rank}", "Traceback:", "  File x", "ValueError: no data"):
            view.log(f"uid-{MASTER}", "chainer", line)
    ruler = "-" * 60
    for line in (ruler, "mpiexec detected that one or more processes exited", ruler):
        view.log(f"uid-{MASTER}", "chainer", line)
    view.pod(master("Failed", ended(1, message="ValueError: no data")), 4)
    view.job(job("Failed", conditions=[condition("Failed", reason="x", message="y")]), 4)
    shown = texts(summary(view, 4))
    assert shown[shown.index("Last lines of its log:") + 1 :] == [
        "  hello from 0",
        "  hello from 1",
        "  hello from 2",
        "  Traceback:",
        "    File x",
        "  ValueError: no data",
    ]
