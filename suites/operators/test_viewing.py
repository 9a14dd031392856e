"""What a user reads of jobs that their own operators run: `why`, `list`, `watch` and `logs`.

training-operator, mpi-operator, JobSet's controller and Kueue run on one embedded cluster; nothing
of this project runs the jobs.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hack.cluster import binaries, kueue
from suites.kueue.queue_user import LABEL, PRIORITY, Queues
from suites.operators import jobsets, mpijobs, pytorchjobs, trainingoperator
from suites.operators.modules import JOBSET, MPI, TRAINING, sources
from suites.operators.test_operators import installed, replicated_job

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suites.shell import Document

pytestmark = pytest.mark.timeout(900)
KUEUE = "sigs.k8s.io/kueue"
LONG = "sleep 600"
FAILS = "echo about to fail; exit 3"
MISSING = "nowhere.invalid/none:1"
LARGE = {"requests": {"cpu": "1000"}}


class Viewer(Queues):
    """Someone with jobs of other operators."""

    def start_operator(self) -> None:
        """Nothing of ours runs these jobs."""
        raise NotImplementedError

    def kill_operator(self) -> None:
        """Nothing of ours runs these jobs."""
        raise NotImplementedError


class Case(NamedTuple):
    """A job, its phase, the cause that `why` finds, and words that a user reads."""

    job: Document
    phase: str
    cause: str
    words: tuple[str, ...] = ()


def _changed(found: Document, image: str, resources: Document | None) -> Document:
    """A template with another image and requests."""
    for container in found["spec"]["containers"]:
        container["image"] = image or container["image"]
        container["resources"] = resources or {}
    return found


def pytorch(
    name: str,
    script: str = LONG,
    *,
    image: str = "",
    resources: Document | None = None,
    policy: str = "Never",
    **run: Any,
) -> Document:
    """A PyTorchJob of a master alone."""
    master = pytorchjobs.replicas(script=script, policy=policy)
    _changed(master["template"], image, resources)
    return trainingoperator.manifest("PyTorchJob", name, pytorchjobs.job(master, None, **run))


def mpi(name: str, script: str = LONG, *, image: str = "",
        resources: Document | None = None, **run: Any) -> Document:  # fmt: skip
    """An MPIJob of two workers."""
    workers = mpijobs.replicas(2, LONG)
    _changed(workers["template"], image, resources)
    launcher = mpijobs.replicas(None, script, "Never")
    return mpijobs.manifest(name, mpijobs.job(launcher, workers, runPolicy=run))


def jobset(name: str, script: str = LONG, *, image: str = "", resources: Document | None = None,
           job: Document | None = None, **spec: Any) -> Document:  # fmt: skip
    """A JobSet of one Job."""
    found = replicated_job("worker", script, 1, **{"backoffLimit": 0, **(job or {})})
    _changed(found["template"]["spec"]["template"], image, resources)
    return jobsets.manifest(name, {"replicatedJobs": [found], **spec})


def batch(name: str, script: str = LONG, **spec: Any) -> Document:
    """A Job."""
    found = replicated_job("worker", script, 1, **{"backoffLimit": 0, **spec})["template"]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, **found}


def queued(found: Document, cpu: str, priority: str = "") -> Document:
    """A job in the queue, each of whose pods asks for so much."""
    labels = {LABEL: "lab"} | ({PRIORITY: priority} if priority else {})
    found["metadata"]["labels"] = labels
    spec = found["spec"]
    for each in spec.get("replicatedJobs", [{"template": {"spec": spec}}]):
        _changed(each["template"]["spec"]["template"], "", {"requests": {"cpu": cpu}})
    return found


NO_IMAGE = (MISSING,)
CASES = {
    "pt-runs": Case(pytorch("pt-runs"), "Running", "running"),
    "pt-image": Case(pytorch("pt-image", image=MISSING), "Created", "no-environment", NO_IMAGE),
    "pt-large": Case(pytorch("pt-large", resources=LARGE), "Created", "insufficient-cpu"),
    "pt-fails": Case(pytorch("pt-fails", FAILS), "Failed", "program-failed", ("exit code 3",)),
    # Its second restart comes after the kubelet has told that it waits.
    "pt-limit": Case(
        pytorch("pt-limit", FAILS, policy="OnFailure", runPolicy={"backoffLimit": 2}),
        "Failed", "retries-exhausted", ("event ", "pt-limit-master-0"),
    ),
    "pt-again": Case(
        pytorch("pt-again", "exit 138", policy="ExitCode"), "Restarting", "restarting",
    ),
    "pt-held": Case(pytorch("pt-held", runPolicy={"suspend": True}), "Suspended", "suspended"),
    "pt-done": Case(pytorch("pt-done", "echo trained"), "Succeeded", "succeeded"),
    "mpi-runs": Case(mpi("mpi-runs"), "Running", "running"),
    "mpi-image": Case(mpi("mpi-image", image=MISSING), "Created", "no-environment", NO_IMAGE),
    "mpi-large": Case(mpi("mpi-large", resources=LARGE), "Created", "insufficient-cpu"),
    "mpi-late": Case(mpi("mpi-late", activeDeadlineSeconds=3), "Failed", "deadline"),
    "mpi-fails": Case(
        mpi("mpi-fails", FAILS, backoffLimit=0), "Failed", "program-failed", ("exit code 3",)
    ),
    "mpi-held": Case(mpi("mpi-held", suspend=True), "Suspended", "suspended"),
    "js-runs": Case(jobset("js-runs"), "Running", "running", ("worker 1 of 1 Jobs ready",)),
    "js-image": Case(jobset("js-image", image=MISSING), "Created", "no-environment", NO_IMAGE),
    "js-large": Case(jobset("js-large", resources=LARGE), "Created", "insufficient-cpu"),
    "js-fails": Case(
        jobset("js-fails", FAILS), "Failed", "program-failed", ("exit code 3", "FailedJobs")
    ),
    "js-again": Case(
        jobset("js-again", FAILS, failurePolicy={"maxRestarts": 1}),
        "Failed", "program-failed", ("no retries left", "ReachedMaxRestarts"),
    ),
    "js-late": Case(
        jobset("js-late", job={"activeDeadlineSeconds": 2}),
        "Failed", "deadline", ("Job js-late-worker-0: DeadlineExceeded",),
    ),
    "js-held": Case(jobset("js-held", suspend=True), "Suspended", "suspended"),
    "js-done": Case(jobset("js-done", "echo trained"), "Succeeded", "succeeded"),
    "bj-fails": Case(batch("bj-fails", FAILS), "", "program-failed", ("exit code 3",)),
    "bj-done": Case(batch("bj-done", "echo trained"), "", "succeeded"),
}  # fmt: skip
QUEUED = {
    "qj-large": Case(
        queued(jobset("qj-large"), "9"), "Suspended", "waiting-for-queue",
        ("Waiting in queue lab", "can never hold this job"),
    ),
    "qj-victim": Case(
        queued(jobset("qj-victim"), "1"), "Suspended", "waiting-for-queue",
        ("after an eviction (Preempted)",),
    ),
    "qj-waits": Case(
        queued(batch("qj-waits"), "1"), "", "waiting-for-queue", ("Waiting in queue lab",)
    ),
}  # fmt: skip


def _install(user: Viewer) -> None:
    """Install the four; training-operator without its own MPIJob, which mpi-operator has."""
    training = f"--kustomize={sources(TRAINING)}/manifests/overlays/standalone"
    installed(user, training, namespace="kubeflow", deployment="training-operator")
    option = {"op": "add", "path": "/spec/template/spec/containers/0/args",
              "value": ["--enable-scheme=pytorchjob"]}  # fmt: skip
    user.kubectl("patch", "deployment", "training-operator", "--namespace=kubeflow",
                 "--type=json", f"--patch={json.dumps([option])}")  # fmt: skip
    user.kubectl("rollout", "status", "deployment/training-operator", "--namespace=kubeflow")
    user.kubectl("delete", "crd", "mpijobs.kubeflow.org")
    mpi_operator = f"--filename={sources(MPI)}/deploy/v2beta1/mpi-operator.yaml"
    installed(user, mpi_operator, namespace="mpi-operator", deployment="mpi-operator")
    controller = "jobset-controller-manager"
    overlay = f"--kustomize={sources(JOBSET)}/config/default"
    installed(user, overlay, namespace="jobset-system", deployment=controller)
    user.kubectl("apply", "--server-side", f"--kustomize={sources(KUEUE)}/config/default")
    user.until_kueue_is_up()
    user.until_kueue_answers()
    user.cluster_queue("lab", "1", preemption={"withinClusterQueue": "LowerPriority"})
    user.priority("high", 1000)


@pytest.fixture(scope="module")
def user(catalog: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """Someone with all jobs."""
    home = tmp_path_factory.mktemp("viewing")
    images = shutil.copytree(catalog.parent, home / "images", symlinks=True)
    (images / "build" / "kueue").symlink_to(binaries.build("kueue"))
    text = (images / catalog.name).read_text()
    text += f'\n  - name: kueue\n    images: ["{kueue.IMAGE}"]\n    command: [/manager]\n'
    text += "    files: {/manager: build/kueue}\n"
    (images / catalog.name).write_text(text)
    found = Viewer(home, default_cache(), "pod,event")
    found.timeout = 600
    with contextlib.ExitStack() as stack:
        found.traincrew(
            *("up", "--nodes=4", f"--images={images / catalog.name}"),
            f"--kubeconfig={found.kubeconfig}",
        )
        stack.callback(found.traincrew, "down")
        _install(found)
        for case in CASES.values():
            found.create(case.job)
        victim, waits = QUEUED["qj-victim"].job, QUEUED["qj-waits"].job
        found.create(victim)
        found.until("the queue admits a job", lambda: found.says("qj-victim", "Admitted") == "True")
        found.create(queued(jobset("qj-urgent"), "1", "high"))
        found.create(QUEUED["qj-large"].job)
        found.create(waits)
        yield found
        assert "Traceback" not in found.log()


@pytest.mark.parametrize("name", [*CASES, *QUEUED])
def test_why(user: Viewer, name: str) -> None:
    case = (CASES | QUEUED)[name]
    word = f"{case.job['kind']}/{name}"

    def explained() -> bool:
        return bool(_why(user, word)["cause"] == case.cause)

    try:
        user.until(f"{name} is explained", explained, 90, every=1)
    finally:
        text = user.traincrew("why", word)
    assert all(each in text for each in case.words), text


def _why(user: Viewer, word: str) -> Document:
    found: Document = json.loads(user.traincrew("why", word, "-o", "json"))
    return found


def test_list(user: Viewer) -> None:
    expected = {name: case.phase for name, case in (CASES | QUEUED).items() if case.phase}

    def phases() -> dict[str, str]:
        listed = json.loads(user.traincrew("list", "-o", "json"))["jobs"]
        return {each["name"]: each["phase"] for each in listed if each["name"] in expected}

    user.until("the phases are listed", lambda: phases() == expected, 90, every=1)


def test_ready_pods_of_jobs_that_run(user: Viewer) -> None:
    def ready() -> dict[str, tuple[int, int]]:
        listed = json.loads(user.traincrew("list", "-o", "json"))["jobs"]
        found = {each["name"]: (each["ready"], each["desired"]) for each in listed}
        return {name: found[name] for name in ("pt-runs", "mpi-runs", "js-runs")}

    expected = {"pt-runs": (1, 1), "mpi-runs": (3, 3), "js-runs": (1, 1)}
    user.until("their pods are ready", lambda: ready() == expected, 60, every=1)


def test_logs(user: Viewer) -> None:
    for word in ("pytorchjob/pt-done", "jobset/js-done", "job/bj-done"):
        printed = user.until(f"{word} has a log", lambda: user.traincrew("logs", word), 60)  # noqa: B023
        assert printed.rstrip().endswith("| trained")
    assert "| about to fail" in user.traincrew("logs", "mpijob/mpi-fails", "--role=launcher")


def test_watch(user: Viewer) -> None:
    for word in ("pytorchjob/pt-done", "jobset/js-done", "job/bj-done"):
        assert "Succeeded after" in user.traincrew("watch", word)
    for word in ("pytorchjob/pt-fails", "mpijob/mpi-fails", "jobset/js-fails", "job/bj-fails"):
        printed = user.traincrew("watch", word, code=None)
        assert "Failed after" in printed
        assert "exit code 3" in printed


def test_a_workload_is_the_job_that_it_belongs_to(user: Viewer) -> None:
    workload = user.workload("qj-large")
    assert workload is not None
    found = _why(user, f"workload/{workload['metadata']['name']}")
    assert (found["kind"], found["name"], found["cause"]) == (
        *("JobSet", "qj-large"),
        "waiting-for-queue",
    )
