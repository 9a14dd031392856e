"""The JobSet of a job as its plan observes it."""

from __future__ import annotations

from typing import Any

from msgspec import field

from traincrew.plan.shared.kind import Child
from traincrew.plan.shared.views import ChildView
from traincrew.plan.trainjob.children import JOB_SETS


class JobSetView(ChildView, frozen=True, gc=False, kw_only=True):
    """A JobSet; both parts stay plain data, because they are shown to users."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def is_suspended(self) -> bool:
        """Whether it is to have no pods."""
        return self.spec.get("suspend") is True

    def condition(self, kind: str) -> dict[str, Any] | None:
        """Return a condition if it is true."""
        for each in self.status.get("conditions") or []:
            if each.get("type") == kind and each.get("status") == "True":
                found: dict[str, Any] = each
                return found
        return None

    @property
    def pods(self) -> int:
        """The number of pods that it asks for."""
        return sum(
            int(job.get("replicas", 1)) * int(job["template"]["spec"].get("parallelism") or 1)
            for job in self.spec.get("replicatedJobs") or []
        )

    def mounts(self, config: str) -> bool:
        """Return whether pods have files of a ConfigMap."""
        return any(
            (volume.get("configMap") or {}).get("name") == config
            for job in self.spec.get("replicatedJobs") or []
            for volume in job["template"]["spec"]["template"]["spec"].get("volumes") or []
        )


JOB_SET = Child(*JOB_SETS, JobSetView)
