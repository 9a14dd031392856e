"""Real training, in the containers built for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from .manifests import OPEN_MPI_WARNING
from .scenario import scenario

if TYPE_CHECKING:
    from .context import ScenarioContext

EXAMPLE = Path(__file__).parents[2] / "examples/chainer/chainerjob-mn.yaml"


@scenario()
async def training(context: ScenarioContext) -> None:
    """The example trains with ChainerMN on three pods, to the same digits on every cluster."""
    await context.create(yaml.safe_load(EXAMPLE.read_text()))
    # The image is large: the embedded cluster may have to build an environment first.
    await context.phase("digits-mn", "Succeeded", seconds=300)
    await context.at_rest()
    (master,) = context.pods("master")
    log = (await context.keep_log(master)).splitlines()
    lines = [line for line in log if not re.fullmatch(OPEN_MPI_WARNING, line)]
    assert lines[0].startswith("3 process(es)"), lines
    assert sum(line.startswith("epoch ") for line in lines) == 30, lines
    assert float(lines[-1].removeprefix("validation accuracy: ")) >= 0.95, lines
