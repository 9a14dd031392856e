"""An ElasticJob that trains for real, as wide as the real Kueue admits it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from suites import elastic_training

from .queue_cases import PREEMPTION
from .queue_user import ELASTIC, LABEL, Queues

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import EmbeddedQueues

pytestmark = pytest.mark.timeout(900)
IMAGE = "suite/torch"


class Job(elastic_training.Job[Queues]):
    """A job of one to three workers in a queue, each of which asks for a tenth of a processor."""

    def __init__(self, queues: Queues, name: str, queue: str, directory: Path) -> None:
        super().__init__(
            queues,
            name,
            directory,
            image=IMAGE,
            script="/train.py",
            replicas=3,
            container={"resources": {"requests": {"cpu": "100m"}}},
            metadata={"labels": {LABEL: queue}, "annotations": {ELASTIC: "true"}},
        )

    def logs(self) -> list[str]:
        words = ("logs", "-l", f"job-name={self.name}", "--tail=-1")
        return [self.user.kubectl(*words, code=None)]


def test_training_grows_and_shrinks_with_the_quota_and_loses_no_epoch(
    queues: EmbeddedQueues, tmp_path: Path
) -> None:
    queues.timeout = 900.0  # PyTorch is pulled when it is first used on a machine
    queues.traincrew("images", "pull", queues.images, IMAGE)
    queues.cluster_queue("training", "300m", preemption=PREEMPTION)
    queues.create(queues.job("ElasticJob", "holder", "training", "sleep 600"))
    queues.until_holds("ElasticJob", "holder", "Running")
    job = Job(queues, "digits", "training", tmp_path / "checkpoints")
    epoch = job.until_training(1)
    first = job.uid(0)
    queues.delete("ElasticJob", "holder")
    epoch = job.until_training(3, after=epoch)
    assert job.uid(0) == first
    assert job.counted == (0, 0)

    queues.create(queues.urgent("ElasticJob", "urgent", "training", "sleep 600"))
    queues.until_holds("ElasticJob", "urgent", "Running")
    epoch = job.until_training(1, after=epoch)
    assert job.status["queue"]["admitted"] == {"worker": 1}
    queues.delete("ElasticJob", "urgent")
    epoch = job.until_training(3, after=epoch)
    assert job.end() > epoch
    assert job.counted == (0, 0)
    queues.delete("ElasticJob", "digits")
