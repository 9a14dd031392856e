"""All scenarios: importing the modules they are in registers them."""

from . import (
    disruptions,
    mpicluster_scenarios,
    mxjob_scenarios,
    obstacles,
    outcomes,
    policies,
    training,
    workers,
)
from .scenario import SCENARIOS, runnable

__all__ = [
    "SCENARIOS",
    "disruptions",
    "mpicluster_scenarios",
    "mxjob_scenarios",
    "obstacles",
    "outcomes",
    "policies",
    "runnable",
    "training",
    "workers",
]
