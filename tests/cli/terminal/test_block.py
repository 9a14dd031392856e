"""The block at the bottom of a terminal: roles, and how far a job is."""

from datetime import UTC, datetime
from typing import Any

from cli.builders import condition, job, pod, running, workload
from traincrew.cli.display.rows import drawn
from traincrew.cli.terminal.block import block
from traincrew.cli.terminal.view import TerminalView

MASTER = "digits-master-x"
SPEC = {
    "master": {"template": {}},
    "workerSets": {"ws0": {"replicas": 2, "template": {}}},
}


def followed(*names: str) -> TerminalView:
    view = TerminalView()
    for name in names or ("digits",):
        view.follow("ChainerJob", "default", name, 0.0)
        view.job(chainer(name), 0.1)
    return view


def chainer(name: str = "digits", phase: str = "Running", progress: Any = None) -> Any:
    conditions = [condition(phase)]
    return job(phase, name=name, version="kubeflow.org/v1alpha1", spec=SPEC, progress=progress,
               conditions=conditions)  # fmt: skip


def rows(view: TerminalView, now: float, columns: int = 76) -> list[str]:
    return [drawn(row, columns) for row in block(view, now)]


def add_master(view: TerminalView, job_name: str = "digits") -> None:
    name = f"{job_name}-master-x"
    view.workload(workload("Job", f"{job_name}-master", job_name=job_name), 1)
    owner = ("Job", f"{job_name}-master")
    view.pod(pod(name, "Running", running(), owned_by=owner, role="master"), 1)


def test_roles_have_the_pods_that_run_and_those_that_are_asked_for() -> None:
    view = followed()
    add_master(view)
    assert rows(view, 61.2) == ["digits  ▶ Running  1:01  master 1/1  ws0 0/2"]


def test_a_job_of_many_pods_is_one_row() -> None:
    view = TerminalView()
    view.follow("ElasticJob", "default", "wide", 0.0)
    spec = {"replicaSpecs": {"Worker": {"replicas": 1000, "template": {}}}}
    view.job(job("Running", kind="ElasticJob", name="wide", version="elastic.pytorch.org/v1alpha1",
                 spec=spec), 0.1)  # fmt: skip
    (row,) = rows(view, 5)
    assert row == "wide  ▶ Running  0:05  Worker 0/1000"


def test_objects_without_roles_are_counted_by_their_owners() -> None:
    view = TerminalView()
    view.follow("Job", "default", "digits-master", 0.0)
    view.job(job(conditions=[condition("Running")], kind="Job", name="digits-master"), 0.1)
    view.pod(pod(MASTER, "Running", running(), owned_by=("Job", "digits-master")), 1)
    assert rows(view, 2) == ["digits-master  ▶ Running  0:02  x 1/1"]


def test_lines_that_programs_print_are_read() -> None:
    view = followed()
    add_master(view)

    def log(text: str) -> list[str]:
        view.log(f"uid-{MASTER}", "chainer", text)
        return rows(view, 20.0)[1:]

    assert log("starting") == []
    assert log("loss 0.7") == ["loss 0.7"]
    (row,) = log("epoch 1/4 loss 0.5")
    assert row == f"{'█' * 4}{'░' * 15}   25%  ~1:00 left  loss 0.5"
    # What a line does not say stays as it was.
    (row,) = log("accuracy: 0.9")
    assert row.endswith("  25%  ~1:00 left  loss 0.5  accuracy 0.9")
    (row,) = log("50%|##  | 2/4 [00:10<00:07, 1.5it/s, loss=0.25]")
    assert row.endswith("  50%  0:07 left  loss 0.25  accuracy 0.9  1.5 it/s")
    view.job(chainer(phase="Succeeded"), 21)
    assert rows(view, 22.0) == ["digits  ✓ Succeeded  0:21  master 1/1  ws0 0/2"]


def test_what_is_reported_goes_before_what_is_printed() -> None:
    view = followed()
    add_master(view)
    view.log(f"uid-{MASTER}", "chainer", "epoch 9/10 loss 9.0 accuracy 0.9")
    progress: dict[str, Any] = {
        "percentage": 43,
        "estimatedRemainingSeconds": 55,
        "metrics": [
            {"name": "epoch", "value": "3"},
            {"name": "loss", "value": "0.4123456"},
            {"name": "train_samples_per_second", "value": "812.25"},
            {"name": "grad_norm", "value": "nan"},
            {"name": "schedule", "value": "warm"},
            {"name": "learning_rate", "value": "0.001"},
        ],
    }
    view.job(chainer(progress=progress), 10)
    head, row = rows(view, 10, 100)
    assert head.startswith("digits  ▶ Running  0:10")
    assert row == (
        f"{'█' * 8}{'░' * 12}   43%  0:55 left  loss 0.4123  grad_norm nan  812.2 samples/s  "
        "schedule warm"
    )
    assert rows(view, 40)[1].startswith(f"{'█' * 8}{'░' * 11}   43%  0:25 left")
    assert "left" not in rows(view, 90)[1]
    # Only a percentage: the metrics are those of the lines; and the other way round.
    view.job(chainer(progress={"percentage": 50}), 100)
    assert rows(view, 100)[1].endswith("  50%  ~1:40 left  loss 9  accuracy 0.9")
    view.job(chainer(progress={"metrics": [{"name": "loss", "value": "1.5"}]}), 100)
    assert rows(view, 100)[1].endswith("  90%  ~0:11 left  loss 1.5")


def test_hostile_reports_cannot_change_the_terminal() -> None:
    view = followed()
    metrics = [
        {"name": "a\x1b[2J\n" + "b" * 100, "value": "1\u202e" + "2" * 100},
        {"name": "", "value": ""},
        {"name": "inf", "value": "1e999"},
    ]
    view.job(chainer(progress={"percentage": 900, "metrics": metrics}), 10)
    for columns in (20, 36, 76):
        for row in rows(view, 10, columns):
            assert row.isprintable()
            assert len(row) <= columns
    assert "  100%  a" in rows(view, 10)[1]


def test_several_jobs_have_rows_until_they_end() -> None:
    view = followed("one", "two")
    view.job(chainer("two", progress={"percentage": 50}), 1)
    assert [row.split()[0] for row in rows(view, 5)] == ["one", "two", f"{'█' * 9}{'░' * 10}"]
    view.job(chainer("one", "Succeeded"), 6)
    assert [row.split()[0] for row in rows(view, 5)] == ["two", f"{'█' * 9}{'░' * 10}"]


def test_a_warning_of_reports_that_do_not_advance_stays() -> None:
    view = followed()
    add_master(view)
    stalled = condition("Progressing", status="False", reason="NotAdvancing", message="45% since")
    view.job(job("Running", version="kubeflow.org/v1alpha1", spec=SPEC,
                 conditions=[condition("Running"), stalled]), 1)  # fmt: skip
    assert rows(view, 61.2)[0] == "digits  ▶ Running, warning  1:01  master 1/1  ws0 0/2"
    view.job(chainer(), 62)
    assert rows(view, 63)[0] == "digits  ▶ Running  1:03  master 1/1  ws0 0/2"


def test_a_program_that_writes_nothing_is_quiet_and_no_time_is_estimated() -> None:
    began = 1_800_000_000.0
    view = TerminalView(started=began)
    view.follow("ChainerJob", "default", "digits", 0.0)
    view.job(chainer(), 0.1)
    add_master(view)
    for second in range(20):
        at = began + second
        stamp = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}Z"
        view.log(f"uid-{MASTER}", "chainer", f"epoch {second + 1}/40", stamp=stamp, now=at)
    assert "left" in rows(view, 20)[1]
    assert rows(view, 64)[1].endswith("50%  no output for 45 s (usually every second)")
    assert [line.text for line in view.silences(64)] == [
        "digits: no output for 45 s (usually every second)"
    ]
    assert view.silences(70) == []  # once
    view.log(f"uid-{MASTER}", "chainer", "epoch 21/40", stamp=stamp, now=began + 71)
    assert view.silences(72) == []
    assert "left" in rows(view, 72)[1]
    view.job(chainer(phase="Restarting"), 73)
    assert "no output" not in " ".join(rows(view, 200))
