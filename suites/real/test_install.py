"""Installation of the operator on a real cluster with kubectl, kustomize and Helm."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from hack.cluster.processes import NotReady
from suites.install import kubectls

from .faults.jobs import IMAGE, chainer_job
from .install_support import (
    CHART,
    DEFINITION,
    DEPLOY,
    NAME,
    ROOT,
    SECONDS,
    User,
    denied,
    elastic_job,
    namespace,
    run,
    uninstall,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster

SPACE = "install"
OTHER = "install-other"


@pytest.fixture
def user(cluster: RealCluster) -> Iterator[User]:
    """A user with a namespace for jobs; nothing is installed, and everything is removed after."""
    uninstall(cluster)
    with namespace(cluster, SPACE) as found:
        yield found
        uninstall(cluster)


@pytest.fixture
def helm(cluster: RealCluster) -> Path:
    """The program."""
    return cluster.binary("helm")


ALWAYS_CHANGED = [f"poddisruptionbudget.policy/{NAME} configured"]
"""The selector of a PodDisruptionBudget has the patch strategy `replace`, so that kubectl sends it
every time and takes that for a change."""


def changed(said: str) -> list[str]:
    """Return the objects that an apply has changed."""
    return [line for line in said.splitlines() if not line.endswith(" unchanged")]


# -- kubectl --------------------------------------------------------------------------------------


def test_kubectl_create(cluster: RealCluster, user: User) -> None:
    cluster.kubectl("create", "-f", str(DEPLOY))
    user.rolled_out()
    user.sees_a_job_through()

    pods = user.operators()
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2, "both replicas on one node"
    for pod in pods:
        (status,) = pod["status"]["containerStatuses"]
        assert status["ready"]
        assert status["restartCount"] == 0
        # The user of the image, or of the Deployment, could still have the uid of root.
        pid_one = cluster.kubectl(
            f"--namespace={NAME}", "exec", pod["metadata"]["name"], "--",
            "/opt/traincrew/bin/python", "-c", WHO_AM_I,
        )  # fmt: skip
        assert json.loads(pid_one) == {"uid": 65532, "capabilities": 0, "writable": False}
    assert "hello" in metrics(user, "traincrew_")


WHO_AM_I = """
import json, os, pathlib
status = dict(line.split(":", 1) for line in open("/proc/1/status"))
def writes(path):
    try:
        pathlib.Path(path, "x").write_text("")
    except OSError:
        return False
    return True
print(json.dumps({
    "uid": int(status["Uid"].split()[0]),
    "capabilities": int(status["CapEff"], 16),
    "writable": any(map(writes, ("/", "/tmp", "/opt/traincrew"))),
}))
"""


def metrics(user: User, name: str) -> str:
    """Fetch the metrics as a Prometheus does, from a pod of the Service."""
    slices = user.cluster.kubectl(
        f"--namespace={NAME}", "get", "endpointslices", "-o", "json",
        f"--selector=kubernetes.io/service-name={NAME}-metrics",
    )  # fmt: skip
    (found,) = json.loads(slices)["items"]
    address = f"http://{found['endpoints'][0]['addresses'][0]}:8080/metrics"
    user.kubectl(
        "run", "prometheus", f"--image={IMAGE}", "--restart=Never", "--",
        "sh", "-c", f"wget -q -O - {address} | grep {name} && echo hello",
    )  # fmt: skip
    user.kubectl(
        "wait",
        "pod/prometheus",
        "--for=jsonpath={.status.phase}=Succeeded",
        f"--timeout={SECONDS}s",
    )
    return user.kubectl("logs", "prometheus")


def test_the_namespace_admits_nothing_less_restricted(cluster: RealCluster, user: User) -> None:
    cluster.kubectl("create", "-f", str(DEPLOY / "1-namespace.yaml"))

    with pytest.raises(NotReady, match='violates PodSecurity "restricted:latest"'):
        cluster.kubectl(f"--namespace={NAME}", "run", "x", f"--image={IMAGE}")


def test_one_replica_is_evicted_at_a_time(cluster: RealCluster, user: User) -> None:
    cluster.kubectl("create", "-f", str(DEPLOY))
    user.rolled_out()
    first, second = [pod["metadata"]["name"] for pod in user.operators()]
    # Counted by a controller after the pods have become ready.
    user.until("one may be evicted", lambda: evictions_allowed(cluster) == "1")
    evict(cluster, first)

    with pytest.raises(NotReady, match="would violate the pod's disruption budget"):
        evict(cluster, second)
    user.rolled_out()
    user.sees_a_job_through()


def evictions_allowed(cluster: RealCluster) -> str:
    allowed = "jsonpath={.status.disruptionsAllowed}"
    return cluster.kubectl(f"--namespace={NAME}", "get", "poddisruptionbudget", NAME, "-o", allowed)


def evict(cluster: RealCluster, pod: str) -> None:
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAME},
    }
    path = f"/api/v1/namespaces/{NAME}/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))


def test_users_who_may_edit_a_namespace_may_train_in_it(cluster: RealCluster, user: User) -> None:
    cluster.kubectl("create", "-f", str(DEPLOY))
    for name, role in (("editor", "edit"), ("viewer", "view")):
        user.kubectl("create", "rolebinding", name, f"--clusterrole={role}", f"--user={name}")
    here, there = f"--namespace={SPACE}", "--namespace=default"
    user.until(  # aggregation is the work of a controller
        "the roles", lambda: not denied(cluster, "create", "chainerjobs", here, "--as=editor")
    )

    assert not denied(cluster, "delete", "chainerjobs", here, "--as=editor")
    assert not denied(cluster, "watch", "chainerjobs", here, "--as=viewer")
    assert denied(cluster, "create", "chainerjobs", here, "--as=viewer")
    assert denied(cluster, "create", "chainerjobs", there, "--as=editor")
    assert denied(cluster, "patch", "chainerjobs", "--subresource=status", here, "--as=editor")


@pytest.mark.parametrize("minor", ["oldest", "newest"])
def test_every_supported_kubectl(cluster: RealCluster, user: User, minor: str) -> None:
    """A plain apply keeps the whole object in an annotation, which is limited to 256 KiB."""
    program = getattr(kubectls, minor)()
    deploy = ["apply", "-f", str(DEPLOY)]
    first = run(program, cluster, *deploy)
    again = run(program, cluster, *deploy)

    assert f"{DEFINITION} created" in first
    assert changed(again) == ALWAYS_CHANGED
    definition = json.loads(run(program, cluster, "get", "crd", DEFINITION, "-o", "json"))
    (applied,) = definition["metadata"]["annotations"].values()
    assert len(applied) < 256 * 1024
    conditions = {each["type"]: each["status"] for each in definition["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions

    def can_explain() -> bool:
        try:
            run(program, cluster, "explain", "chainerjob.spec")
        except AssertionError:
            return False
        return True

    user.until("the schema is published", can_explain)
    explained = run(program, cluster, "explain", "chainerjob.spec")
    for text in ("workerSets", "runPolicy", "The master pod.", "backend"):
        assert text in explained
    image = run(program, cluster, "explain", "chj.spec.master.template.spec.containers.image")
    assert "FIELD: image <string>" in image


# -- kustomize ------------------------------------------------------------------------------------


def test_kubectl_apply_k(cluster: RealCluster, user: User) -> None:
    config = str(ROOT / "config" / "default")
    cluster.kubectl("apply", "-k", config)
    user.rolled_out()
    user.sees_a_job_through()

    assert changed(cluster.kubectl("apply", "-f", str(DEPLOY))) == ALWAYS_CHANGED
    cluster.kubectl("delete", "-k", config, f"--timeout={SECONDS}s")
    assert cluster.kubectl("get", "crd,clusterrole", "-o", "name").find(NAME) == -1


def test_under_the_names_of_torchelastic(cluster: RealCluster, user: User) -> None:
    config, name = str(ROOT / "config" / "elastic-job"), "elastic-job-k8s-controller"
    try:
        cluster.kubectl("apply", "-k", config)
        wait = f"--timeout={SECONDS}s"
        there = "--namespace=elastic-job"
        cluster.kubectl(there, "rollout", "status", f"deployment/{name}", wait)
        user.create(elastic_job("trains", "echo hello", workers=2))
        job = ("elasticjob", "trains")
        user.until("success", lambda: user.get(*job).get("status", {}).get("phase") == "Succeeded")

        assert "is successfully completed" in user.kubectl("describe", *job)
        assert "hello" in user.kubectl("logs", "trains-worker-1")
        assert "operator is ready" in cluster.kubectl(there, "logs", f"deployment/{name}")
        for who, may in (("editor", True), ("viewer", False)):
            role = f"--clusterrole=elasticjob-{who}-role"
            user.kubectl("create", "rolebinding", who, role, f"--user={who}")
            for verb, allowed in (("create", may), ("watch", True)):
                question = (verb, "elasticjobs", f"--namespace={SPACE}", f"--as={who}")
                assert denied(cluster, *question) != allowed, question
    finally:
        cluster.kubectl("delete", "-k", config, "--ignore-not-found", f"--timeout={SECONDS}s")


# -- Helm -----------------------------------------------------------------------------------------


def release(user: User, **values: Any) -> list[str]:
    """Arguments of ``helm install`` and ``helm upgrade``."""
    settings = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    return [
        f"--namespace={NAME}", "--create-namespace", "--wait", f"--timeout={SECONDS:g}s", *settings
    ]  # fmt: skip


def columns(cluster: RealCluster) -> list[str]:
    """Return the output of ``kubectl get chainerjobs``."""
    document = json.loads(cluster.kubectl("get", "crd", DEFINITION, "-o", "json"))
    (version,) = document["spec"]["versions"]
    return [column["name"] for column in version["additionalPrinterColumns"]]


def older_chart(directory: Path) -> Path:
    """Return an older chart, whose definition lacks one column."""
    chart = directory / "older"
    shutil.copytree(CHART, chart)
    definitions = chart / "definitions.yaml"  # a copy: in the chart it is a link
    text = definitions.read_text()
    less = text.replace("    - name: Restarts\n", "    - name: Retries\n")
    assert less != text
    definitions.write_text(less)
    return chart


def test_helm_from_install_to_uninstall(
    cluster: RealCluster, user: User, helm: Path, tmp_path: Path
) -> None:
    """Upgrades update the definition, too; uninstalling keeps it, and with it the jobs."""
    said = run(helm, cluster, "install", "crew", str(older_chart(tmp_path)), *release(user))
    assert f"rollout status deployment/{NAME}" in said
    assert "Retries" in columns(cluster)
    user.rolled_out()
    user.sees_a_job_through("before")

    resources = {"requests": {"memory": "100Mi"}}
    changed = release(user, replicas=3, resources=resources, podLabels={"team": "a"})
    run(helm, cluster, "upgrade", "crew", str(CHART), *changed)
    user.rolled_out(replicas=3)
    assert "Restarts" in columns(cluster)
    assert all(pod["metadata"]["labels"]["team"] == "a" for pod in user.operators())
    user.sees_a_job_through("after")

    kept = run(helm, cluster, "uninstall", "crew", f"--namespace={NAME}", "--wait")
    assert "kept due to the resource policy" in kept
    jobs = {job["metadata"]["name"] for job in user.items("chainerjobs")}
    assert jobs == {"before", "after"}
    run(helm, cluster, "install", "crew", str(CHART), *release(user))
    user.sees_a_job_through("again")
    run(helm, cluster, "uninstall", "crew", f"--namespace={NAME}", "--wait")


def test_helm_takes_over_from_kubectl(cluster: RealCluster, user: User, helm: Path) -> None:
    cluster.kubectl("create", "-f", str(DEPLOY))
    user.rolled_out()
    user.create(chainer_job("before", "echo hello"))
    user.until_phase("before", "Succeeded")
    run(helm, cluster, "install", "crew", str(CHART), "--take-ownership", *release(user))
    user.sees_a_job_through("after")

    assert user.get("chainerjob", "before")["status"]["phase"] == "Succeeded"
    run(helm, cluster, "uninstall", "crew", f"--namespace={NAME}", "--wait")


def test_an_operator_for_one_namespace(cluster: RealCluster, user: User, helm: Path) -> None:
    """It serves that namespace, and has no permissions elsewhere."""
    with namespace(cluster, OTHER) as neighbour:
        values = release(user, watchNamespace=SPACE, userRoles={"enabled": False})
        run(helm, cluster, "install", "crew", str(CHART), *values)
        neighbour.create(chainer_job("not-served", "echo hello"))
        user.sees_a_job_through()

        operator = f"--as=system:serviceaccount:{NAME}:{NAME}"
        assert not denied(cluster, "create", "jobs", f"--namespace={SPACE}", operator)
        for verb, resource in (("list", "chainerjobs"), ("create", "jobs"), ("get", "pods")):
            assert denied(cluster, verb, resource, f"--namespace={OTHER}", operator)
            assert denied(cluster, verb, resource, f"--namespace={NAME}", operator)
        assert "status" not in neighbour.get("chainerjob", "not-served")
        assert user.get("lease", NAME)["spec"]["holderIdentity"]
        run(helm, cluster, "uninstall", "crew", f"--namespace={NAME}", "--wait")


SHARD = "second-operator"


def test_an_operator_for_each_of_two_namespaces(
    cluster: RealCluster, user: User, helm: Path
) -> None:
    """The second one has its own name, and its own share of the API server."""
    with namespace(cluster, OTHER) as neighbour:
        both = {"userRoles": {"enabled": False}, "replicas": 1}
        first = release(user, watchNamespace=SPACE, **both)
        second = release(
            user,
            name=SHARD,
            watchNamespace=OTHER,
            crds={"enabled": False},
            priorityAndFairness={"enabled": True},
            **both,
        )
        run(helm, cluster, "install", "crew", str(CHART), *first)
        try:
            run(helm, cluster, "install", "second", str(CHART), *second)
            user.sees_a_job_through()
            neighbour.sees_a_job_through()

            for mine, theirs, name in ((user, neighbour, NAME), (neighbour, user, SHARD)):
                assert mine.get("lease", "chainer-operator")["spec"]["holderIdentity"].startswith(
                    f"{name}-"
                )
                account = f"--as=system:serviceaccount:{NAME}:{name}"
                there = f"--namespace={theirs.namespace}"
                assert denied(cluster, "list", "chainerjobs", there, account)
            text = cluster.kubectl("get", "--raw", "/metrics")
            counted = re.compile(
                r"apiserver_flowcontrol_dispatched_requests_total"
                r'\{flow_schema="([^"]+)",priority_level="([^"]+)"\} (\d+)'
            )
            dispatched = {match[1]: match[2] for match in counted.finditer(text) if match[3] != "0"}
            assert dispatched[SHARD] == SHARD
            assert dispatched[f"{SHARD}-leader-election"] == "leader-election"
        finally:
            run(helm, cluster, "uninstall", "second", f"--namespace={NAME}", "--wait")
        run(helm, cluster, "uninstall", "crew", f"--namespace={NAME}", "--wait")
