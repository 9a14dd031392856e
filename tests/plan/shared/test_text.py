"""Output of programs that tries to control the terminal of who reads it."""

import pytest

from traincrew.plan.shared.pods import shorten, termination_text
from traincrew.plan.shared.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 0.5", "loss 0.5"),
        ("Verlust größer, 損失 📈", "Verlust größer, 損失 📈"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9d0;owned\x9ctitle", "title"),
        ("\x1b]0;not ended\nboom", "\nboom"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1bcreset", "reset"),
        ("alone \x1b", "alone "),
        ("user\u202egnp.exe\u2066\u200b", "usergnp.exe"),
        ("nul\0bell\x07back\x08del\x7f", "nulbellbackdel"),
        ("surrogate \ud800", "surrogate "),
        ("10%\r20%\r\ndone\x0b\x85\u2028end", "10%\n20%\ndone\n\n\nend"),
        ("no\xa0break\tand tab", "no break\tand tab"),
    ],
)
def test_only_what_is_printed_is_left(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


ATTACKS = ["\x1b]0;owned\x07", "\x9b2J", "\u202e", "\0", "\x1b[8m"]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "message",
    [
        "%sboom",
        "Traceback (most recent call last):\nValueError: %sboom",
        "ValueError: %sboom\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n",
    ],
)
def test_messages_of_containers_are_printed(attack: str, message: str) -> None:
    text = termination_text(message % attack)
    assert text.isprintable()
    assert text == termination_text(message % "")
    assert "boom" in text
    assert shorten(message % attack) == shorten(message % "")


def test_a_long_text_of_sequences_that_never_end_is_read_once() -> None:
    """Matching is linear: a megabyte of beginnings would otherwise take hours."""
    for beginning in ("\x1b[", "\x1b[0;", "\x1b]", "\x1bP", "\x9b0 "):
        assert len(printable(beginning * 250_000)) <= 1_000_000
