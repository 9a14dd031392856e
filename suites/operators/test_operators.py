"""Unmodified releases of other projects, installed and used as documented."""

import json
from typing import Any

from suites.operators.modules import JOBSET, MPI, TRAINING, sources
from suites.shell import User


def installed(user: User, *manifest: str, namespace: str, deployment: str) -> None:
    """Install an operator and wait until it is available."""
    user.apply_published(*manifest)
    user.kubectl(
        *("wait", "deployment", deployment, "--namespace", namespace),
        *("--for=condition=Available", "--timeout=180s"),
    )


def succeeded(user: User, job: str, namespace: str) -> None:
    """Wait until a job has succeeded."""
    user.kubectl(
        *("wait", job, "--namespace", namespace, "--for=condition=Succeeded", "--timeout=300s")
    )


def test_mpi_operator(cluster: User) -> None:
    """Its launcher reaches the workers by ssh, and the program counts them."""
    source = sources(MPI)
    manifest = source / "deploy/v2beta1/mpi-operator.yaml"
    installed(
        cluster, f"--filename={manifest}", namespace="mpi-operator", deployment="mpi-operator"
    )
    cluster.kubectl("create", f"--filename={source}/examples/v2beta1/pi/pi.yaml")
    succeeded(cluster, "mpijob/pi", "default")
    launcher = ("-l", "training.kubeflow.org/job-role=launcher")
    printed = cluster.kubectl("logs", *launcher, "--tail=-1").splitlines()
    assert "Workers: 2" in printed
    assert {"Rank 0 on host pi-worker-0", "Rank 1 on host pi-worker-1"} <= set(printed)
    (approximation,) = (line for line in printed if line.startswith("pi is approximately"))
    assert abs(float(approximation.split()[-1]) - 3.1416) < 0.01
    # `cleanPodPolicy: Running`: workers that still run are deleted, the launcher stays.
    workers = ("pods", "-l", "training.kubeflow.org/job-role=worker")
    cluster.until("the workers are deleted", lambda: not cluster.get(*workers)["items"])
    (pod,) = cluster.get("pods")["items"]
    assert pod["status"]["phase"] == "Succeeded"


def test_training_operator(cluster: User) -> None:
    """A master and a worker find each other and train together; its webhook refuses mistakes."""
    source = sources(TRAINING)
    overlay = source / "manifests/overlays/standalone"
    installed(
        cluster, f"--kustomize={overlay}", namespace="kubeflow", deployment="training-operator"
    )
    example = source / "examples/pytorch/simple.yaml"
    wrong = example.read_text().replace("name: pytorch\n", "name: another\n")
    refusal = cluster.kubectl("create", "--filename=-", given=wrong, code=1)
    webhook = "validator.pytorchjob.training-operator.kubeflow.org"
    assert f'admission webhook "{webhook}" denied the request' in refusal
    assert "must have at least one container with name pytorch" in refusal
    cluster.kubectl("create", f"--filename={example}")
    succeeded(cluster, "pytorchjob/pytorch-simple", "kubeflow")
    for rank, name in enumerate(("pytorch-simple-master-0", "pytorch-simple-worker-0")):
        printed = cluster.kubectl(
            "logs", name, "--container=pytorch", "--namespace=kubeflow", "--tail=1"
        )
        assert printed.startswith(f"rank {rank} of 2 on {name}: accuracy 0."), printed
        assert float(printed.split()[-1]) > 0.5


def replicated_job(name: str, script: str, pods: int, **job: Any) -> dict[str, Any]:
    """A job of a JobSet, whose pods run a shell script."""
    container = {"name": "main", "image": "alpine:3.10", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "template": template, **job}
    return {"name": name, "replicas": 1, "template": {"spec": spec}}


def test_jobset(cluster: User) -> None:
    """Pods find each other, a failed attempt is one of the whole set; its webhook refuses mistakes.

    The manager makes the certificate of its webhooks itself, and writes it into their
    configurations and into the definition.
    """
    overlay = sources(JOBSET) / "config/default"
    installed(
        cluster,
        f"--kustomize={overlay}",
        namespace="jobset-system",
        deployment="jobset-controller-manager",
    )
    find = "getent hosts pair-driver-0-0.pair && getent hosts pair-workers-0-1.pair"
    # The first attempt ends with an error, and the second has another number.
    fail = 'test "$ATTEMPT" != 0'
    driver = replicated_job("driver", f"{find} && {fail}", 1, backoffLimit=0)
    (container,) = driver["template"]["spec"]["template"]["spec"]["containers"]
    attempt = "metadata.annotations['jobset.sigs.k8s.io/restart-attempt']"
    field = {"fieldRef": {"fieldPath": attempt}}
    container["env"] = [{"name": "ATTEMPT", "valueFrom": field}]
    spec: dict[str, Any] = {
        "failurePolicy": {"maxRestarts": 2},
        "replicatedJobs": [driver, replicated_job("workers", find, 2)],
    }
    jobset: dict[str, Any] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "pair"},
        "spec": spec,
    }
    policy = {"operator": "All", "targetReplicatedJobs": ["nobody"]}
    wrong = {**jobset, "spec": {**spec, "successPolicy": policy}}
    refusal = cluster.kubectl("create", "--filename=-", given=json.dumps(wrong), code=1)
    assert 'The JobSet "pair" is invalid' in refusal
    assert "invalid replicatedJob name 'nobody' does not appear in" in refusal

    cluster.kubectl("create", "--filename=-", given=json.dumps(jobset))
    cluster.kubectl("wait", "jobset/pair", "--for=condition=Completed", "--timeout=120s")

    found = cluster.get("jobset", "pair")
    assert found["status"]["restarts"] == 1
    assert found["spec"]["replicatedJobs"][0]["groupName"] == "default"  # by its webhook
