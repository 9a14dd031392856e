"""What of a row is shown on a terminal of a width."""

import pytest

from traincrew.cli.display.rows import Row, bar, drawn, width_of

HEAD = Row("digits", ("Running", "1:01"), ("master 1/1  worker 7/9", "8/10 running", "8/10"))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (76, "digits  Running  1:01  master 1/1  worker 7/9"),
        (45, "digits  Running  1:01  master 1/1  worker 7/9"),
        (44, "digits  Running  1:01  8/10 running"),
        (34, "digits  Running  1:01  8/10"),
        (26, "digits  Running  1:01"),
        (16, "digits  Running"),
        (10, "digits"),
        (4, "dig…"),
    ],
)
def test_roles_are_said_shorter_and_then_left_out(columns: int, text: str) -> None:
    assert drawn(HEAD, columns) == text


def test_a_long_name_is_cut_and_leaves_room_for_phase_and_time() -> None:
    row = Row("a-name-of-a-job-that-is-long", ("Running", "1:01"), ("8/10",))
    assert drawn(row, 36) == "a-name-of-a-job-that…  Running  1:01"
    assert drawn(row, 20) == "a-name-…  Running"
    wide = Row("訓練のしごと", ("Running",))
    assert drawn(wide, 17) == "訓練の…  Running"


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (80, f"{'█' * 8}{'░' * 12}   43%  0:55 left  loss 0.41  1.8 it/s"),
        (52, f"{'█' * 5}{'░' * 8}   43%  0:55 left  loss 0.41  1.8 it/s"),
        (36, f"{'█' * 3}{'░' * 6}   43%  0:55 left"),
        (14, f"{'█' * 3}{'░' * 5}   43%"),
        (10, f"{'█' * 3}{'░' * 5}"),
        (4, "█░░░"),
    ],
)
def test_the_length_of_the_bar_depends_on_the_terminal_alone(columns: int, text: str) -> None:
    row = Row(words=(" 43%", "0:55 left", "loss 0.41", "1.8 it/s"), done=0.43)
    assert drawn(row, columns) == text
    assert width_of(drawn(row, columns)) <= columns


def test_a_bar_is_full_only_at_the_end() -> None:
    assert bar(0.999, 10) == "█████████░"
    assert bar(1, 10, plain=True) == "##########"
    assert bar(0, 4, plain=True) == bar(-1, 4, plain=True) == "----"


def test_words_without_a_bar() -> None:
    assert drawn(Row(words=("loss 0.41", "accuracy 0.9")), 15) == "loss 0.41"
    assert drawn(Row(), 15) == ""
