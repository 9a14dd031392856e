"""What users are told about GPUs that this machine does not have."""

from __future__ import annotations

import pytest

from traincrew.cli.cluster.gpus import warn_of_missing
from traincrew.local import node


@pytest.mark.parametrize(
    ("there", "wanted", "told"),
    [
        (0, None, ""),
        (0, 0, ""),
        (0, 2, "--gpus 2 is pretended: this machine has none"),
        (2, 2, ""),
        (2, 3, "--gpus 3: this machine has 2, so pods share them"),
        (1, 3, "--gpus 3: this machine has 1, so pods share it"),
    ],
)
def test_a_warning_if_there_are_fewer(
    monkeypatch: pytest.MonkeyPatch, there: int, wanted: int | None, told: str
) -> None:
    monkeypatch.setattr(node, "count_gpus", lambda: there)
    monkeypatch.setattr(node, "machine_gpus", lambda: tuple(range(there)))
    text = warn_of_missing(wanted)
    assert told in text
    assert bool(told) == bool(text)
