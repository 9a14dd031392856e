"""ElasticJobs that train on the embedded cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from typing import TYPE_CHECKING, Any

from suites import elastic_training, processes, shell

if TYPE_CHECKING:
    from pathlib import Path

Document = dict[str, Any]
IMAGE = "suite/torch"


class User(shell.User):
    """Someone with ElasticJobs."""

    timeout = 900.0  # an image with PyTorch is pulled when it is first used

    def state(self) -> str:
        """Describe the state, for the message of a failed wait."""
        selector = "group-name=elastic.pytorch.org"
        logs = self.kubectl("logs", "-l", selector, "--prefix", "--tail=40", code=None)
        return f"{super().state()}\n{logs}"


class Job(elastic_training.Job[User]):
    """One in an environment of this machine.

    Args:
        user: Whose it is.
        name: The job's.
        directory: Where its checkpoints are to be.
        replicas: How many workers there are at first.
        restarts: How often a launcher starts its process again.
        policy: Restart policy of the workers.
        resources: Of a worker.
        spec: More fields of its spec.
    """

    def __init__(
        self,
        user: User,
        name: str,
        directory: Path,
        *,
        replicas: int = 2,
        restarts: int = 20,
        policy: str = "ExitCode",
        resources: Document | None = None,
        **spec: Any,
    ) -> None:
        super().__init__(
            user,
            name,
            directory,
            image=IMAGE,
            script="/train.py",
            replicas=replicas,
            restarts=restarts,
            policy=policy,
            container={"resources": resources or {}},
            spec=spec,
        )

    def logs(self) -> list[str]:
        """What the pods have printed, those that can be asked."""
        selector = f"job-name={self.name}"
        return [self.user.kubectl("logs", "-l", selector, "--tail=-1", code=None)]

    def kill_launcher(self, index: int) -> None:
        """End a worker's launcher (the agent of TorchElastic) with SIGKILL.

        From outside, as the kernel would: in its pod it is process 1, which nobody there can kill.
        """
        (launcher,) = processes.first_of_pods(re.escape(self.pod(index)))
        os.kill(launcher, signal.SIGKILL)

    def end(self) -> int:
        """Training has lasted long enough: it has to end well, as somebody who follows sees, too.

        Returns:
            After which epoch it has ended.
        """
        follow = subprocess.Popen(
            ["kubectl", "logs", "-f", self.pod(0)],
            env=self.user.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        epoch = super().end()
        said, _ = follow.communicate(timeout=60)
        assert follow.returncode == 0, said
        assert "\nend: rank" in said, said
        return epoch
