"""What torchrun reports, as PyTorch 2.13 printed it (``tests/plan/torchrun``).

Three processes, of which rank 1 fails, and in ``exceptions`` and ``recorded-twice`` rank 2, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from traincrew.plan.shared.pods import hides_cause, output_of_programs, termination_text

OUTPUTS = Path(__file__).parent / "torchrun"
KEPT = 2048
"""So much of a log is a termination message."""
BROKEN = "ValueError: my dataset is broken (rank 1, exit code 1)"
EXIT = "rank 1 failed with exit code 3"


def output(name: str) -> str:
    """What torchrun and its processes have printed."""
    return (OUTPUTS / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "shown", "hidden"),
    [
        ("exception", BROKEN, True),
        ("exceptions", BROKEN, True),
        ("exit", EXIT, True),
        ("kill", "rank 1 was ended by signal 9 (SIGKILL)", False),
        ("recorded", BROKEN, False),
        ("recorded-twice", BROKEN, False),
        ("recorded-multiline", BROKEN, False),
        ("recorded-exit", EXIT, True),
    ],
)
def test_the_process_that_failed_first_is_shown(name: str, shown: str, hidden: bool) -> None:
    text = output(name)
    assert termination_text(text) == shown
    assert hides_cause(text[-KEPT:]) is hidden
    if not hidden:
        assert termination_text(text[-KEPT:]) == shown


LOST = (
    "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:35027. "
    "This is typically caused by a remote worker crashing."
)
NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, remote process exited or "
    "there was a network error, NCCL version 2.21.5"
)


def overtaken(lost: str) -> str:
    """``exceptions``, with a table that names rank 2 as the first, which only lost rank 1."""
    text = output("exceptions")
    assert text.count("rank      : 2 (local_rank: 2)") == 1
    text = text.replace("rank      : 2 (local_rank: 2)", "rank      : * (local_rank: *)")
    text = text.replace("rank      : 1 (local_rank: 1)", "rank      : 2 (local_rank: 2)")
    text = text.replace("rank      : * (local_rank: *)", "rank      : 1 (local_rank: 1)")
    return text.replace("[rank2]: ValueError: my dataset is broken", f"[rank2]: {lost}")


@pytest.mark.parametrize("lost", [LOST, NCCL])
def test_a_process_that_lost_another_one_is_not_the_cause(lost: str) -> None:
    text = overtaken(lost)
    assert termination_text(text) == BROKEN
    assert hides_cause(text[-KEPT:])
    assert output_of_programs(text.splitlines())[-1] == "[rank1]: ValueError: my dataset is broken"


def test_a_process_that_lost_another_one_is_reported_if_there_is_no_other() -> None:
    text = output("exception").replace("ValueError: my dataset is broken", LOST)
    assert termination_text(text) == f"{LOST} (rank 1, exit code 1)"


def test_of_processes_without_tags_the_one_that_lost_another_is_not_the_cause() -> None:
    text = overtaken(LOST).replace("[rank1]: ", "").replace("[rank2]: ", "")
    mine = "\n".join(line for line in text.splitlines() if not line.startswith("[rank"))
    assert termination_text(mine).startswith("ValueError: my dataset is broken (rank ")


def test_before_processes_had_tags_the_last_exception_is_shown() -> None:
    untagged = output("exception").replace("[rank1]: ", "")
    mine = "\n".join(line for line in untagged.splitlines() if not line.startswith("[rank"))
    assert termination_text(mine) == BROKEN


@pytest.mark.parametrize("tags", ["[default1]:", "[default1]:[rank1]: ", "[rank1]: "])
def test_tags_of_the_launcher_are_removed(tags: str) -> None:
    lines = [line for line in output("exit").splitlines() if not line.startswith("[rank")]
    text = "\n".join([f"{tags}AssertionError", *lines])
    assert termination_text(text) == "AssertionError (rank 1, exit code 3)"
