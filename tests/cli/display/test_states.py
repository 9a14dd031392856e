"""One table of states for terminal, page and documentation."""

import pytest
from hack.shared import PAGE, SCRIPT, page, script

from cli.builders import ended, pod, running
from traincrew.cli.display import states
from traincrew.cli.display.podstates import pod_state
from traincrew.cli.display.rows import Row, drawn
from traincrew.plan.mxjob.status import CREATING, DONE
from traincrew.plan.shared import lifecycle


def test_the_page_has_the_table() -> None:
    """If this fails: ``python hack/shared.py``."""
    assert SCRIPT.read_text(encoding="utf-8") == script()


def test_the_documentation_has_the_table() -> None:
    """If this fails: ``python hack/shared.py``."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_signs_are_told_apart_without_colour() -> None:
    assert len({sign.character for sign in states.SIGNS}) == len(states.SIGNS)
    assert len({sign.ascii for sign in states.SIGNS}) == len(states.SIGNS)
    assert all(sign.ascii.isascii() for sign in states.SIGNS)
    assert states.phase("Running").sign != states.phase("Succeeded").sign


def test_every_phase_that_a_plan_writes_has_a_sign() -> None:
    words = (lifecycle.CREATED, lifecycle.RUNNING, lifecycle.RESTARTING, lifecycle.SUSPENDED,
             lifecycle.SUCCEEDED, lifecycle.FAILED, CREATING, DONE)  # fmt: skip
    assert {*words} <= {*states.PHASES}


@pytest.mark.parametrize(
    ("plain", "row"), [(False, "digits  ▶ Running  1:01"), (True, "digits  > Running  1:01")]
)
def test_terminals_without_the_signs_have_those_of_ascii(*, plain: bool, row: str) -> None:
    shown = Row("digits", ("Running", "1:01"), sign=states.phase("Running").sign)
    assert drawn(shown, 76, plain=plain) == row


def test_a_state_of_a_pod_is_marked_as_the_table_says() -> None:
    assert pod_state(pod("x", "Running", running())).sign == states.RUNNING.sign
    assert pod_state(pod("x", "Succeeded", ended(0))).sign == states.FINISHED.sign
    assert pod_state(pod("x", "Failed", ended(3))).sign == states.EXITED.sign
