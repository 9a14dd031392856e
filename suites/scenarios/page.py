"""Generates docs/design/differences.md: ``python -m suites.scenarios.page``."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from .all_scenarios import SCENARIOS
from .differences import DIFFERENCES, Difference

PLACE = Path(__file__).parents[2] / "docs/design/differences.md"
_HEAD = """\
# Where the embedded cluster differs from a real one

<!-- Made from suites/scenarios by `python -m suites.scenarios.page`; a test compares. -->

The scenarios of `suites/scenarios` are written once and run on both clusters: the embedded
one, and Kubernetes itself (etcd, API server, controllers, scheduler, two kubelets with
containerd). A recorder watches every object of a scenario's namespace through the public API.
What it has seen becomes a transcript: each object as it was stored, its conditions and phases in
order, how its containers ended, the events of each component, the operator's steps, the logs. The
two transcripts have to be equal, line by line, but for what is listed here; and what is listed
here and not met any more fails the suite, too. If only components of the real cluster (kubelet,
scheduler, controllers) have reported something more, the scenario is run there once more: what they
do not report again depends on timing.

`TRAINCREW_SUITE_TRANSCRIPTS=directory` keeps the transcripts of a run.

"""
_CHANCE = """\
## What is not compared

What differs between two runs on the same cluster: UIDs, addresses, times and random names are
replaced by words that say whose they are; how the lives of different objects interleave; how
often an event is repeated whose number depends on how long something takes; states that a watch
shows or skips, such as `ContainerCreating`; the finalizer by which the Job controller tracks
pods.

"""
_WIDTH = 100


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD, "## Differences\n\n"]
    parts += [_item(f"**{each.name}**{_where(each)}. {each.why}") for each in DIFFERENCES]
    parts += ["\n", _CHANCE, "## Scenarios\n\n"]
    for name, scenario in SCENARIOS.items():
        text = re.sub(r"\s+", " ", (scenario.run.__doc__ or "").partition("\n\n")[0])
        parts.append(_item(f"`{name}`: {text}"))
        for cluster, why in scenario.without.items():
            parts.append(textwrap.indent(_item(f"Not on the {cluster} cluster: {why}"), "  "))
    return "".join(parts)


def _where(difference: Difference) -> str:
    found = [] if difference.scenarios == ".*" else [f"in `{difference.scenarios}`"]
    if difference.sometimes:
        found.append("not in every run")
    return f" ({', '.join(found)})" if found else ""


def _item(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="- ", subsequent_indent="  ") + "\n"


if __name__ == "__main__":
    PLACE.write_text(page())
