"""Settings and fixtures of all tests."""

import gc
import logging
import signal
import sys
from collections.abc import Iterator
from functools import partial

import hypothesis
import pytest
from hypothesis import HealthCheck, settings, strategies

import ordering
import variation
from traincrew.engine.observability import logs

# pytest rewrites the assertions of a module when it imports it. That takes longer than all the rest
# of a start, in each of the processes of a run; so what it has made is kept, also where
# PYTHONDONTWRITEBYTECODE is set.
sys.dont_write_bytecode = False

# Nothing of what is imported and collected is garbage; see pytest_collection_finish.
gc.disable()

# The duration of an example depends on the load of the machine and is not a failure.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a part of all tests."""
    text = "only every other module, and the others with each change of the code"
    parser.addoption("--part", choices=("turn",), help=text)


def pytest_report_header() -> str:
    """Print the number that repeats a run."""
    return f"{variation.VARIABLE}={variation.NUMBER}"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let Hypothesis choose its examples by the code, and Ctrl-C interrupt what tests start.

    A shell without job control lets what it starts in the background ignore SIGINT, and so would
    every program that a test interrupts.
    """
    if config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = str(variation.NUMBER)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each process of a run begin with other modules, whose assertions it then rewrites."""
    config = session.config
    which, count, chosen = 0, 1, _always
    if hasattr(config, "workerinput"):
        which = int(config.workerinput["workerid"].removeprefix("gw"))
        count = config.workerinput["workercount"]
    if config.getoption("part"):
        chosen = partial(variation.has_turn, turns=2)
    config.args = ordering.rotated(config.args, which, count, chosen)


def _always(_place: int) -> bool:
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests in an order that depends on nothing but the number: each alone, after any other."""
    items[:] = ordering.shuffled(items, variation.NUMBER, lambda item: item.path.as_posix())


def pytest_collection_finish() -> None:
    """Let the garbage collector not traverse thousands of tests while they run, and run less often.

    Hypothesis begins before that: it looks for references to its generator of random numbers, and
    would not see those of frozen objects.
    """
    hypothesis.find(strategies.none(), lambda _: True, settings=settings(database=None))
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    gc.enable()


@pytest.fixture(autouse=True)
def log_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore log settings that a test, or a command it runs in this process, has changed."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    monkeypatch.setattr(logs._State, "settings", logs._State.settings)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
