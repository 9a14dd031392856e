"""The same JobSets, by JobSet's own controller and by ours, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from suites.operators import test_jobsets
from suites.operators.jobsets import CASES, manifest
from suites.operators.jobsets_refused import BROKEN

from .same_jobs import Project, SameJobs, in_turn

if TYPE_CHECKING:
    from suites.shell import User

pytestmark = pytest.mark.timeout(1200)


def prepare(user: User) -> None:
    """Make volumes for the claims, as an administrator without a provisioner does."""
    user.kubectl("delete", "persistentvolumes", "--all")
    for number in range(4):
        directory = user.home / f"volume-{number}"
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
        user.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"jobsets-{number}"},
                "spec": {
                    "capacity": {"storage": "1Mi"},
                    "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": str(directory)},
                },
            }
        )


FIELDS = {
    "long" * 16: "metadata.name",
    "first": "[0].dependsOn",
    "reason": "onJobFailureReasons",
    "twice": "failurePolicy.rules: 2 are named same",
    "in-place": "failurePolicy.restartStrategy",
    "nobody": "coordinator.replicatedJob",
    "job-index": "coordinator.jobIndex",
    "pod-index": "coordinator.podIndex",
    "completions": "spec.coordinator",
    "product": "replicatedJobs[0].replicas",
    "claims-twice": "volumeClaimPolicies",
    "claims-long": "volumeClaimPolicies",
}
"""What ours says in status of what JobSet refuses by its webhook only, which is removed."""
OF_NOBODY = "manager"
"""Is refused by that webhook; ours leaves it to that manager."""
PROJECT = Project(
    kinds=("JobSet",),
    plural="jobsets.jobset.x-k8s.io",
    install=test_jobsets.install,
    operators=(("jobset-system", "jobset-controller-manager"),),
    manifest=manifest,
    cases=in_turn(CASES),
    settled=test_jobsets.settled,
    assert_same=test_jobsets.assert_same,
    broken={name: each for name, each in BROKEN.items() if name != OF_NOBODY},
    words=FIELDS,
    prepare=prepare,
)


class TestJobSets(SameJobs):
    """All cases."""

    project = PROJECT
