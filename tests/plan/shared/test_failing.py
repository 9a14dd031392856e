"""Which of several failed pods explains the failure of their job."""

import pytest

from traincrew.plan.shared.failing import UNKNOWN, Failed, explaining, named


def pod(name: str, second: int | None, role: str = "worker", rank: int = 0,
        created: str = "") -> Failed[str]:  # fmt: skip
    ended = UNKNOWN if second is None else f"2026-01-01T00:00:{second:02}Z"
    return Failed(name, role, rank, created, ended)


def test_the_first_to_end_explains_the_others() -> None:
    assert explaining([pod("a", 5), pod("b", 3, rank=1), pod("c", None, rank=2)], ()) == "b"


def test_pods_that_ended_in_the_same_second_are_in_the_order_of_their_places() -> None:
    assert explaining([pod("b", 3, rank=10), pod("a", 3, rank=9)], ()) == "a"
    assert explaining([pod("w", 3, "worker"), pod("s", 3, "scheduler", 1)], ()) == "s"


def test_the_newest_attempt_of_a_place_counts() -> None:
    attempts = [pod("old", 1, created="2026-01-01T00:00:00Z"),
                pod("new", 9, created="2026-01-01T00:00:02Z")]  # fmt: skip
    assert explaining(attempts, ()) == "new"
    assert explaining(attempts[::-1], ()) == "new"
    assert explaining([*attempts, pod("other", 5, rank=1)], ()) == "other"


def test_the_roles_that_decide_go_before_the_others() -> None:
    assert explaining([pod("w", 1), pod("m", 9, "master")], ("master",)) == "m"
    assert explaining([pod("w", 1)], ("master",)) == "w"
    assert explaining([], ("master",)) is None


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("pod a-0 on node n1: container x exited with code 3; pod a-1: container x", "a-0"),
        ("it is failed because 1 Worker replica(s) failed. pod a-1: container x exited", "a-1"),
        ("Worker 1 failed: pod a-1 was deleted.", "a-1"),
        ("pod other: container x exited with code 3: pod a-1: gone", "a-1"),
        ("the pod a-1 is too large", None),
        ("", None),
    ],
)
def test_the_pod_that_a_message_names(message: str, name: str | None) -> None:
    assert named(message, ["a-0", "a-1"]) == name
