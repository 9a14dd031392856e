"""Which suites a run has: all of them, or what always runs and one of the parts in turn.

`make suites` runs all. CI has the time for what `parts.toml` lists under ``always`` and for one of
`PARTS` parts of the rest. The part follows from the code (see `variation`): a commit has the same
part on every machine, and over a few commits every suite has had its turn.

A unit is what is chosen as a whole: a file, since its tests share what is expensive to start, or
one scenario of `suites/scenarios`, whose three tests are one comparison.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PATH = Path(__file__).with_name("parts.toml")
PARTS = 7
VARIABLE = "TRAINCREW_SUITES_PART"
"""Environment variable with the number of the part that is run; unset, all suites are run."""

SCENARIOS = "suites/scenarios/test_scenarios.py"
# Suites that share what there is only one of: the real cluster, and the place images are built.
SHARING = ("suites/images/", "suites/real/", "suites/scenarios/", "suites/kubectl/comparison/")
_SECONDS = "[seconds]\n"

Lane = Literal["real", "embedded"]


class Plan(NamedTuple):
    """The contents of `parts.toml`.

    Attributes:
        always: Units that every run has.
        seconds: How long each unit takes on a quiet machine; only the balance of parts needs it.
        programs: Names of programs that a unit needs, by the beginning of its name.
        images: Names of images that a unit needs, by the beginning of its name.
    """

    always: frozenset[str]
    seconds: Mapping[str, int]
    programs: Mapping[str, tuple[str, ...]]
    images: Mapping[str, tuple[str, ...]]


def read(path: Path = PATH) -> Plan:
    """Read the table of suites."""
    table = tomllib.loads(path.read_text())
    builds = table["builds"].items()
    return Plan(
        always=frozenset(table["always"]),
        seconds=table["seconds"],
        programs={unit: tuple(each.get("programs", ())) for unit, each in builds},
        images={unit: tuple(each.get("images", ())) for unit, each in builds},
    )


def unit_of(test: str) -> str:
    """Return the unit of a test, named by its pytest node id relative to the repository."""
    path, _, name = test.partition("::")
    scenario = re.search(r"\[(.*)\]$", name)
    return f"{path}[{scenario[1]}]" if path == SCENARIOS and scenario else path


def lane_of(unit: str) -> Lane:
    """Return the lane of a unit: units of the real lane never run at the same time."""
    return "real" if unit.startswith(SHARING) else "embedded"


def group_of(unit: str) -> str:
    """Return the group of a unit: units of a group run one after the other, in one process.

    The real lane is a group. In the other lane a directory is one: its units share what is made
    once for a process, such as clusters and environments.
    """
    return "real" if lane_of(unit) == "real" else unit.rpartition("/")[0]


def first(plan: Plan, groups: Mapping[str, Iterable[str]]) -> str:
    """Return which of the groups that wait has to begin next.

    What takes longest begins first, so that no process is left alone with it at the end; and the
    real lane before all others, which could take its turn only then.

    Args:
        plan: Says how long units take.
        groups: The units of each group that waits; at least one.
    """

    def seconds(group: str) -> tuple[bool, int]:
        return group == "real", sum(plan.seconds.get(unit, 0) for unit in set(groups[group]))

    return max(groups, key=seconds)


def part_of(plan: Plan) -> dict[str, int]:
    """Assign each measured unit that is not run always to a part.

    The longest come first, each to the part of its lane that has least to do so far: parts take
    about the same time.
    """
    load: dict[tuple[Lane, int], int] = {}
    parts = {}
    turning = plan.seconds.keys() - plan.always
    for unit in sorted(turning, key=lambda each: (-plan.seconds[each], each)):
        lane = lane_of(unit)
        part = min(range(PARTS), key=lambda each: load.get((lane, each), 0))
        load[lane, part] = load.get((lane, part), 0) + plan.seconds[unit]
        parts[unit] = part
    return parts


def chosen(plan: Plan, units: Iterable[str], part: int) -> set[str]:
    """Return the units that a run of a part has. A unit that nobody has measured runs always."""
    parts = part_of(plan)
    return {unit for unit in units if parts.get(unit, part) == part}


def needed(table: Mapping[str, tuple[str, ...]], units: Iterable[str]) -> list[str]:
    """Return the programs, or the images, that units need, each once, in the order of the table."""
    wanted = list(units)
    names = (
        name
        for beginning, names in table.items()
        if any(unit.startswith(beginning) for unit in wanted)
        for name in names
    )
    return list(dict.fromkeys(names))


def record(seconds: Mapping[str, float], path: Path = PATH) -> None:
    """Write how long units took into the table; those that did not run keep what is there."""
    merged = {**read(path).seconds, **{unit: round(each) for unit, each in seconds.items()}}
    text = path.read_text()
    lines = [f"{json.dumps(unit)} = {merged[unit]}\n" for unit in sorted(merged)]
    path.write_text(text[: text.index(_SECONDS) + len(_SECONDS)] + "".join(lines))
