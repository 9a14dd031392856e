"""Progress and metrics in the lines that training programs print."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.cli.display.metrics import LONGEST_NAME, MOST_METRICS, MetricReader, Reading


def read(line: str) -> Reading | None:
    return MetricReader().read(line)


@pytest.mark.parametrize(
    ("line", "metrics", "done", "remaining"),
    [
        # the examples of this project
        (
            "epoch   1  loss 2.0376  validation accuracy 0.7889  0.1 s",
            {"epoch": 1, "loss": 2.0376, "validation accuracy": 0.7889},
            None,
            None,
        ),
        ("validation accuracy: 0.981", {"validation accuracy": 0.981}, None, None),
        # counts
        ("epoch 3/20 loss 0.41", {"loss": 0.41}, 0.15, None),
        ("Epoch [3/20], Step [100/500], Loss: 0.4100", {"loss": 0.41}, 0.15, None),
        ("step 100 of 1000", {}, 0.1, None),
        ("Iteration: 5/10 lr=1e-05", {"lr": 1e-05}, 0.5, None),
        # assignments
        ("train_loss=0.5 acc=0.9", {"train_loss": 0.5, "acc": 0.9}, None, None),
        ("loss = -1.5e3", {"loss": -1500}, None, None),
        ("INFO step=3 loss=.25", {"step": 3, "loss": 0.25}, None, None),
        # dictionaries
        ('{"epoch": 2, "epochs": 8, "r": 0.3}', {"epoch": 2, "epochs": 8, "r": 0.3}, 0.25, None),
        (
            "{'loss': 0.41, 'learning_rate': 1e-05, 'epoch': 1.2}",
            {"loss": 0.41, "learning_rate": 1e-05, "epoch": 1.2},
            None,
            None,
        ),
        ("{'loss': '0.41', 'epoch': '1.2'}", {"loss": 0.41, "epoch": 1.2}, None, None),
        # progress bars
        (
            " 45%|####5     | 9/20 [00:05<00:06,  1.8it/s, loss=0.41]",
            {"loss": 0.41, "it/s": 1.8},
            0.45,
            6,
        ),
        ("train: 100%|██████████| 3/3 [1:00:05<00:00, 2.00s/it]", {"it/s": 0.5}, 1.0, 0),
        ("  0%|          | 0/20 [00:00<?, ?it/s]", {}, 0.0, None),
        ("  5%|5         | 1/20 [00:30<1:02:03, 20s/it]", {"it/s": 0.05}, 0.05, 3723),
        ("  5%|5         | 1/20 [00:30<1:02:03, 0s/it]", {}, 0.05, 3723),
        # more than all
        ("epoch 21/20", {}, 1.0, None),
    ],
)  # fmt: skip
def test_what_a_line_says(
    line: str, metrics: dict[str, float], done: float | None, remaining: float | None
) -> None:
    reading = read(line)

    assert reading is not None
    assert reading.metrics == metrics
    assert reading.done == (pytest.approx(done) if done is not None else None)
    assert reading.remaining == remaining


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("epoch 3/20 loss 0.41", ("epoch", 3)),
        ("Step [100/500], Loss: 0.4100", ("step", 100)),
        ("iter 7 of 9 loss=1", ("iteration", 7)),
        ("step 5 loss=1", None),
        (" 45%|####5     | 9/20 [00:05<00:06,  1.8it/s, loss=0.41]", None),
    ],
)
def test_what_a_line_counts(line: str, count: tuple[str, float] | None) -> None:
    reading = read(line)

    assert reading is not None
    assert reading.counted == count


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hello",
        "3 process(es), 479 images each, 360 to validate",
        "listening on 127.0.0.1:8080",
        "2026-01-02 03:04:05 started",
        "epoch 3",
        "step=3",
        "version=1.2.3",
        "at file.py:12",
        "url=http://host:80/loss=3x",
        "{not json}",
        '{"loss": null, "ok": true, "name": "x"}',
        '{"loss": NaN}',
        '{"loss": 1e999}',
        "{" * 3000 + "}" * 3000,
        "loss nan",
        "epoch 1/0",
        "loss 0.5" + " " * 5000,
    ],
)
def test_what_says_nothing(line: str) -> None:
    reading = read(line)

    assert reading is None or (not reading.metrics and reading.done is None)


def test_a_table_of_chainer() -> None:
    reader = MetricReader()

    assert reader.read("epoch       main/loss   validation/main/accuracy  elapsed_time") is None
    reading = reader.read("1           0.192863    0.9639                    8.69")
    assert reading is not None
    assert reading.metrics == {
        "epoch": 1,
        "main/loss": 0.192863,
        "validation/main/accuracy": 0.9639,
        "elapsed_time": 8.69,
    }
    assert reader.read("1 2") is None
    assert reader.read("a b c d") is None


def test_names_and_counts_are_bounded() -> None:
    many = read("{" + ",".join(f'"m{number}": {number}' for number in range(200)) + "}")
    assert many is not None
    assert list(many.metrics) == [f"m{number}" for number in range(MOST_METRICS)]
    reading = read('{"%s": 1, "a\\u001b[2J": 2, "": 3, "ok": 4}' % ("x" * (LONGEST_NAME + 1)))
    assert reading is not None
    assert reading.metrics == {"ok": 4}


@given(
    st.text(max_size=300) | st.text(alphabet="epochls =:/[]%|<>0123456789.,'\"{}\t", max_size=300)
)
def test_any_text_is_read(line: str) -> None:
    reader = MetricReader()
    for _ in range(2):
        reading = reader.read(line)
        if reading is not None:
            assert reading.done is None or 0 <= reading.done <= 1


@pytest.mark.parametrize(
    "line",
    ["a" * 4096, "1" * 4096, "loss " * 800, "loss " + " " * 4000, "=" * 4096, "0%|" * 1300,
     "epoch [" * 580, "'a': " * 800, "a=1" * 1300, "-" * 4096, "." * 4096, "1." * 2000],
)  # fmt: skip
def test_no_line_takes_long(line: str) -> None:
    began = time.process_time()
    for end in ("", "}", "x"):
        read(line[:4095] + end)
        read("{" + line[:4094] + end)

    assert time.process_time() - began < 2, "a pattern backtracks"
