"""Training itself, in the containers that are there for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from .manifests import OPEN_MPI_WARNING
from .scenario import scenario

if TYPE_CHECKING:
    from .stage import Stage

EXAMPLE = Path(__file__).parents[2] / "examples/chainer/chainerjob-mn.yaml"


@scenario()
async def training(stage: Stage) -> None:
    """The example trains with ChainerMN on three pods, to the same digits on every cluster."""
    await stage.create(yaml.safe_load(EXAMPLE.read_text()))
    # The image is large: the embedded cluster may have to build an environment first.
    await stage.phase("digits-mn", "Succeeded", seconds=300)
    await stage.at_rest()
    (master,) = stage.pods("master")
    log = (await stage.keep_log(master)).splitlines()
    lines = [line for line in log if not re.fullmatch(OPEN_MPI_WARNING, line)]
    assert lines[0].startswith("3 process(es)"), lines
    assert sum(line.startswith("epoch ") for line in lines) == 30, lines
    assert float(lines[-1].removeprefix("validation accuracy: ")) >= 0.95, lines
