"""All scenarios: importing the modules they are in registers them."""

from . import (
    play_obstacles,
    play_outcomes,
    play_policies,
    play_training,
    play_troubles,
    play_workers,
)
from .scenario import SCENARIOS, playable

__all__ = [
    "SCENARIOS",
    "play_obstacles",
    "play_outcomes",
    "play_policies",
    "play_training",
    "play_troubles",
    "play_workers",
    "playable",
]
