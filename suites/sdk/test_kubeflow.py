"""Kubeflow's SDK trains on the embedded cluster without a container engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from suites.sdk import kubeflow_sdk
from suites.shell import User, running

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(900)
def test_it_trains_on_three_nodes(tmp_path: Path) -> None:
    user = User(tmp_path, default_cache())
    kubeflow_sdk.install(user)
    user.traincrew("images", "pull", "pytorch/pytorch")
    user.timeout = 600.0

    with running(user):
        kubeflow_sdk.trains(user)
