"""Test suites of other projects that start a kube-apiserver: which ones are built."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GO_SUITES", "GoSuites", "suite_module", "suite_program"]


class GoSuites(NamedTuple):
    """Test suites of a Go module that start a kube-apiserver, as envtest does.

    Attributes:
        module: Path of the Go module.
        packages: Paths of the packages with tests, relative to the module.
        project: The directory with its go.mod, if it has not the name of the suites.
    """

    module: str
    packages: tuple[str, ...]
    project: str = ""


GO_SUITES = {
    "controller-runtime": GoSuites(
        "sigs.k8s.io/controller-runtime",
        (
            "pkg/builder",
            "pkg/cache",
            "pkg/client",
            "pkg/cluster",
            "pkg/controller",
            "pkg/controller/controllerutil",
            "pkg/envtest",
            "pkg/handler",
            "pkg/internal/controller",
            "pkg/internal/recorder",
            "pkg/manager",
            "pkg/metrics/filters",
            "pkg/source",
            "pkg/webhook",
        ),
    ),
    "jobset": GoSuites(
        "sigs.k8s.io/jobset", ("test/integration/controller", "test/integration/webhook")
    ),
    "jobset-by-traincrew": GoSuites(
        "sigs.k8s.io/jobset", ("test/integration/controller",), "jobset"
    ),
    "kueue": GoSuites(
        "sigs.k8s.io/kueue",
        (
            "test/integration/singlecluster/controller/core",
            "test/integration/singlecluster/controller/jobs/job",
            "test/integration/singlecluster/controller/jobs/pod",
            "test/integration/singlecluster/controller/jobs/statefulset",
            "test/integration/singlecluster/conversion",
            "test/integration/singlecluster/scheduler",
            "test/integration/singlecluster/scheduler/podsready",
            "test/integration/singlecluster/webhook/core",
        ),
    ),
    "mpi-operator": GoSuites("github.com/kubeflow/mpi-operator", ("test/integration",)),
    "mpi-operator-by-traincrew": GoSuites(
        "github.com/kubeflow/mpi-operator", ("test/integration",), "mpi-operator"
    ),
    "trainer": GoSuites(
        "github.com/kubeflow/trainer/v2",
        ("test/integration/controller", "test/integration/webhooks"),
    ),
    "trainer-by-traincrew": GoSuites(
        "github.com/kubeflow/trainer/v2", ("test/integration/controller",), "trainer"
    ),
    "training-operator": GoSuites(
        "github.com/kubeflow/training-operator",
        (
            "pkg/controller.v1/jax",
            "pkg/controller.v1/mpi",
            "pkg/controller.v1/paddlepaddle",
            "pkg/controller.v1/pytorch",
            "pkg/controller.v1/tensorflow",
            "pkg/controller.v1/xgboost",
            "test/integration/controller.v2",
            "test/integration/webhook.v2",
        ),
    ),
}
"""By project. `suites/envtest` runs them against the programs of `traincrew envtest`. Those called
``by-traincrew`` are changed so that they judge traincrew's operator (``changes/``)."""


def suite_module(project: str) -> str:
    """Return the directory in ``modules/`` of a key of `GO_SUITES`."""
    return GO_SUITES[project].project or project


def suite_program(project: str, package: str) -> str:
    """Return the name of the program with the tests of a package: a key of `binaries.PROGRAMS`."""
    return f"{project}-{package.replace('/', '-')}.test"
