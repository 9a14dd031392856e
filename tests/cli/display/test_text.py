"""Durations, cleaned lines, cut lines."""

import pytest

from traincrew.cli.display.console import Painter
from traincrew.cli.display.lines import Line
from traincrew.cli.display.rows import cut
from traincrew.cli.display.text import clean, clock, duration, parse_duration, seconds_between


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.0 s"), (0.41, "0.4 s"), (9.97, "10 s"), (59.7, "1 min"), (61, "1 min 1 s"),
     (3600, "1 h"), (3725, "1 h 2 min"), (-1, "0.0 s")],
)  # fmt: skip
def test_durations_are_formatted(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5s", 1.5), ("5m", 300), ("1h30m", 5400), ("2h", 7200)],
)
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 minutes", "-3s", "0", "1d"])
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration(text)


def test_the_stopwatch() -> None:
    assert [clock(7.9), clock(61), clock(3723)] == ["0:07", "1:01", "1:02:03"]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("", ""),
        ("tab\tstays", "tab\tstays"),
        ("10%\r50%\r100%\r", "100%"),
        ("\x1b[4A\x1b[J", None),
        ("\x1b[J", None),
        ("\x1b[2Kepoch 3", "epoch 3"),
        ("\x1b]0;title\x07text", "text"),
        ("bell\x07 and \x1b(B more", "bell and  more"),
        ("umlaut ü 訓練", "umlaut ü 訓練"),
        ("abc\u202e def\u2066 g", "abc def g"),
        ("family 👩\u200d👧", "family 👩\u200d👧"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_lines_are_cleaned(raw: str, shown: str | None) -> None:
    assert clean(raw, colour=False) == shown


def test_colours_stay_where_they_are_wanted_and_are_closed() -> None:
    assert clean("\x1b[31mred", colour=True) == "\x1b[31mred\x1b[0m"
    assert clean("\x1b[2J\x1b[1;32mok\x1b[0m", colour=True) == "\x1b[1;32mok\x1b[0m\x1b[0m"


def test_seconds_between_timestamps() -> None:
    assert seconds_between("2026-01-01T00:00:00Z", "2026-01-01T00:00:02.500000Z") == 2.5
    assert seconds_between("2026-01-01T00:00:00Z", None) is None
    assert seconds_between("yesterday", "2026-01-01T00:00:00Z") is None


def test_lines_are_cut_to_the_terminal() -> None:
    assert cut("short", 10) == "short"
    assert cut("exactly", 7) == "exactly"
    assert cut("much too long", 8) == "much to…"
    assert cut("訓練訓練", 5) == "訓練…"


def test_prefixes_line_up_and_pods_keep_their_colour() -> None:
    painter = Painter(colour=True)
    painter.assign_colour("a-longer-pod")
    assert painter.paint(Line("one", source="pod")) == "\x1b[33mpod |\x1b[0m one"
    painter.paint(Line("one", source="a-longer-pod"))
    assert painter.paint(Line("two", source="pod")) == "\x1b[33mpod          |\x1b[0m two"
    painter.hidden_prefix = "a-longer-"
    assert painter.paint(Line("x", source="a-longer-pod")) == "\x1b[36mpod          |\x1b[0m x"
    assert painter.paint(Line("two", source="pod/sidecar")).startswith("\x1b[33m")


def test_plain_lines_have_no_escapes() -> None:
    painter = Painter(colour=False)
    assert painter.paint(Line("running", "good", at=1.23)) == "   1.2s  running"
    assert painter.paint(Line("", source="pod")) == "pod |"
    assert painter.paint(Line("Why: x", "bad")) == "Why: x"


def test_our_own_lines_break_between_words_on_a_terminal() -> None:
    painter = Painter(colour=False)
    painter.columns = 40
    painted = painter.paint(Line("digits: Restarting: the master is tried again", at=2.0))
    assert painted == "   2.0s  digits: Restarting: the master\n           is tried again"
    pod = "pod | " + "long " * 20
    assert painter.paint(Line(("long " * 20), source="pod")) == pod.rstrip()
    assert painter.paint(Line("  " + "x" * 50)) == "  " + "x" * 50
