"""The same JobSets, by JobSet's own controller and by ours, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from suites.operators import test_jobsets
from suites.operators.jobsets import CASES, manifest
from suites.operators.jobsets_refused import BROKEN

from .same_jobs import Both, Project, compare, in_turn

if TYPE_CHECKING:
    from hack.cluster import RealCluster
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
    broken={
        name: (spec, FIELDS.get(name, word))
        for name, (spec, word) in BROKEN.items()
        if name != OF_NOBODY
    },
    prepare=prepare,
)


@pytest.fixture(scope="module")
def both(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """What a user sees of JobSet, and of ours."""
    return compare(PROJECT, cluster, tmp_path_factory.mktemp("both"))


@pytest.mark.parametrize("case", PROJECT.cases)
def test_users_see_the_same(both: Both, case: str) -> None:
    test_jobsets.assert_same(both.ours.jobs[case], both.theirs.jobs[case], case)


@pytest.mark.parametrize("case", PROJECT.broken)
def test_both_name_the_same_field(both: Both, case: str) -> None:
    _, word = BROKEN[case]
    assert word in both.theirs.said[case]
    assert PROJECT.broken[case][1] in both.ours.said[case]
