"""The simulated cluster with a JobSet, whose Jobs have one pod each."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Self

import yaml

from plan.world import World

EXAMPLES = Path(__file__).parent / "examples"
ATTEMPT = "jobset.sigs.k8s.io/restart-attempt"


def example(name: str, **spec: Any) -> dict[str, Any]:
    """A manifest of the examples, with further fields of the spec."""
    document: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    document["spec"].update(spec)
    return document


def pair(**spec: Any) -> dict[str, Any]:
    """A driver and two workers; `spec` are further fields."""
    return copy.deepcopy(example("pair", **spec))


def restarting(*rules: dict[str, Any], limit: int = 1, **policy: Any) -> dict[str, Any]:
    """The same with a failure policy."""
    return pair(failurePolicy={"maxRestarts": limit, "rules": list(rules), **policy})


class JobSetWorld(World):
    """One JobSet and everything around it."""

    def begin(self) -> Self:
        """Until every pod runs."""
        self.settle()
        self.run()
        self.settle()
        return self

    @property
    def jobs(self) -> list[str]:
        """The names of the Jobs, without that of the JobSet."""
        return sorted(
            key.name.removeprefix(f"{self.name}-") for key in self.children if key.kind == "Job"
        )

    def child(self, name: str) -> dict[str, Any]:
        """A Job by its name, without that of the JobSet."""
        return next(
            document
            for key, document in self.children.items()
            if key == ("Job", f"{self.name}-{name}")
        )

    def attempts(self) -> dict[str, str]:
        """The attempts of the Jobs, by name."""
        return {name: self.child(name)["metadata"]["labels"][ATTEMPT] for name in self.jobs}

    def exit(self, name: str, code: int) -> None:
        """The program of a Job ends with an exit code."""
        uid = self.child(name)["metadata"]["uid"]
        for pod in self.pods.values():
            owner = pod["metadata"]["ownerReferences"][0]
            if owner["uid"] == uid and pod["status"]["phase"] == "Running":
                self.end(pod, code, finishedAt=self.stamp())

    def fail(self, name: str) -> None:
        """A Job fails; its back-off limit is 0."""
        self.exit(name, 1)
        self.settle()

    def reasons(self) -> list[str]:
        """Of all events."""
        return [event.reason for event in self.events]

    def counts(self, name: str) -> dict[str, Any]:
        """The counts of a replicated job in the status."""
        found = self.status["replicatedJobsStatus"]
        return next(each for each in found if each["name"] == name)
