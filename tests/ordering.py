"""The order of tests: random, repeatable, and the same in all processes of a run."""

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_TESTS = Path(__file__).resolve().parent


def shuffled(items: Iterable[T], seed: int, module: Callable[[T], str]) -> list[T]:
    """Return tests in random order; those of a module stay together, and share its fixtures.

    Args:
        items: The tests; the order of modules among them does not count.
        seed: Chooses the order.
        module: Returns the path of a test's module.
    """
    modules: dict[str, list[T]] = {}
    for item in items:
        modules.setdefault(module(item), []).append(item)
    order = random.Random(seed)
    paths = sorted(modules)
    order.shuffle(paths)
    found = []
    for path in paths:
        order.shuffle(modules[path])
        found += modules[path]
    return found


def rotated(
    arguments: list[str], which: int, count: int, chosen: Callable[[int], bool] = lambda _: True
) -> list[str]:
    """Return the modules that one of several processes collects, beginning with its own part.

    All processes collect all modules. The first one that imports a module rewrites its assertions
    and keeps them for the others; without this, all would do the same work at the same time.

    Args:
        arguments: Of pytest; others than the folder of all tests are returned unchanged.
        which: Number of the process, from 0.
        count: Number of processes.
        chosen: Whether a run has the module at this place of the sorted list; all by default.
    """
    if [Path(each).resolve() for each in arguments] != [_TESTS]:
        return arguments
    found = sorted(map(str, _TESTS.rglob("test_*.py")))
    files = [each for place, each in enumerate(found) if chosen(place)]
    start = len(files) * which // count
    return files[start:] + files[:start]
