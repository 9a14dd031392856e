"""mxnet-operator's charts on an embedded cluster, with Helm 3 and 4: the operator runs in pods."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from suites.helm import BOTH, built
from suites.shell import User

from traincrew.local.directories import default_cache

from .support import ROOT

OPERATOR = str(ROOT / "charts" / "mx-job-operator-chart")
JOB = str(ROOT / "charts" / "mx_job")
WAIT = ("--wait", "--timeout=180s")
POD = {
    "restartPolicy": "OnFailure",
    "containers": [{"name": "mxnet", "image": "busybox:1", "command": ["true"]}],
}


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """Someone with a cluster without an operator and without definitions."""
    found = User(tmp_path, default_cache(), "mxjobs.mxnet.mlkube.io,pod,event")
    found.traincrew("up", "--no-operator", f"--kubeconfig={found.kubeconfig}")
    with contextlib.ExitStack() as stack:
        stack.callback(found.traincrew, "down")
        found.kubectl("delete", "crd", "--all")
        yield found
        log = found.log()
    assert "Traceback" not in log, log


@pytest.fixture(params=BOTH)
def helm(request: pytest.FixtureRequest) -> str:
    return str(built(request.param))


def test_from_install_to_uninstall(user: User, helm: str) -> None:
    said = user.does(helm, "install", "mx-job", OPERATOR, *WAIT)
    assert "helm test mx-job --namespace default" in said
    tested = user.does(helm, "test", "mx-job", "--logs", "--timeout=180s")
    assert "phase Done, state Succeeded" in tested
    assert "the operator works" in tested
    assert user.get("mxjobs.mxnet.mlkube.io")["items"] == []

    user.does(helm, "upgrade", "mx-job", OPERATOR, "--set=test_image=busybox:1", *WAIT)
    again = user.does(helm, "test", "mx-job", "--logs", "--timeout=180s")
    assert "with image busybox:1" in again
    # The example wants GPUs, which this machine may lack: the job waits and says so.
    user.does(helm, "install", "example-dist-job", JOB)
    phase = ("get", "mxj", "example-dist-job", "-o", "jsonpath={.status.phase}")
    user.until("its phase", lambda: user.kubectl(*phase) == "Creating")
    scheduler = "example-dist-job-scheduler"
    jobs = {job["metadata"]["name"] for job in user.get("jobs")["items"]}
    assert any(name.startswith(scheduler) for name in jobs)
    assert len(jobs) == 6
    worker = next(job for job in user.get("jobs")["items"] if "worker" in job["metadata"]["name"])
    pod = worker["spec"]["template"]["spec"]
    (volume,) = (each for each in pod["volumes"] if each["name"] == "nvidia-libraries")
    assert volume["hostPath"]["path"] == "/var/lib/nvidia-docker/volumes/nvidia_driver/current"
    assert "nvidia-libraries" in {each["name"] for each in pod["containers"][0]["volumeMounts"]}
    user.does(helm, "uninstall", "example-dist-job", "--wait")
    user.until("its children are deleted", lambda: not user.get("jobs")["items"])

    kept = user.does(helm, "uninstall", "mx-job", "--wait")
    assert "mxjobs.mxnet.mlkube.io" in kept
    left = user.get("deployment,configmap,role,rolebinding,clusterrole,clusterrolebinding")
    names = {each["metadata"]["name"] for each in left["items"]}
    assert not {name for name in names if "mx-job" in name}


def test_helm_test_fails_without_an_operator(user: User, helm: str) -> None:
    user.does(helm, "install", "mx-job", OPERATOR, *WAIT)
    user.kubectl("scale", "deployment/mx-job-operator", "--replicas=0")
    user.until("nobody acts", lambda: not user.get("pods", "-l", "name=mx-job-operator")["items"])

    user.does(helm, "test", "mx-job", "--timeout=10s", code=1)


def left_behind(user: User, job: str, runtime_id: str) -> None:
    """Create a Job and its Service as mxnet-operator did: with labels, without an owner."""
    labels = {
        "mxnet.mlkube.io": "",
        "job_type": "SCHEDULER",
        "runtime_id": runtime_id,
        "task_index": "0",
    }
    metadata = {"name": f"{job}-scheduler-{runtime_id}-0", "labels": labels}
    template = {"metadata": {"labels": labels}, "spec": POD}
    user.create(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
         "spec": {"template": template}}
    )  # fmt: skip
    ports = [{"name": "ps-root-port", "port": 9091}]
    user.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata,
         "spec": {"selector": labels, "ports": ports}}
    )  # fmt: skip


def test_what_mxnet_operator_left_behind(tmp_path: Path) -> None:
    """Beside jobs of ours in both groups, whose children have owners."""
    user = User(tmp_path, default_cache(), "mxjobs.mxnet.mlkube.io,pod,event")
    user.traincrew("up", f"--kubeconfig={user.kubeconfig}")
    try:
        spec = {"jobMode": "local", "replicaSpecs": [{"template": {"spec": POD}}]}
        for group, name in (("mxnet.mlkube.io", "new"), ("mlkube.io", "old")):
            user.create(
                {"apiVersion": f"{group}/v1beta1", "kind": "MxJob",
                 "metadata": {"name": name}, "spec": spec}
            )  # fmt: skip
            user.kubectl(
                "wait", f"mxjobs.{group}/{name}", "--for=jsonpath={.status.phase}=Done",
                "--timeout=120s",
            )  # fmt: skip
        left_behind(user, "gone", "1kkf")
        user.until("its pod", lambda: user.get("pods", "-l", "runtime_id=1kkf")["items"])
        runtime_id = user.kubectl("get", "mxj", "new", "-o", "jsonpath={.spec.RuntimeId}")
        left_behind(user, "adopted", runtime_id)
        before = {each["metadata"]["uid"] for each in user.get("jobs,services,pods")["items"]}

        listed = user.traincrew("orphans")
        assert "Job      default    gone-scheduler-1kkf-0" in listed
        assert "no MxJob has RuntimeId 1kkf" in listed
        assert "orphaned in namespace default: 2 objects; nothing was deleted" in listed
        assert {
            each["metadata"]["uid"] for each in user.get("jobs,services,pods")["items"]
        } == before
        deleted = user.traincrew("orphans", "--delete")
        assert "Job default/gone-scheduler-1kkf-0: deleted" in deleted
        user.until(
            "its pod is deleted", lambda: not user.get("pods", "-l", "runtime_id=1kkf")["items"]
        )
        names = {each["metadata"]["name"] for each in user.get("jobs,services")["items"]}
        assert f"new-worker-{runtime_id}-0" in names
        assert f"adopted-scheduler-{runtime_id}-0" in names
        assert "gone-scheduler-1kkf-0" not in names
    finally:
        user.traincrew("down")
