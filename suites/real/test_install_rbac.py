"""Least privilege on a cluster that enforces it, checked against its audit log.

The operator is installed from `deploy/`, limited by the admission policy of `config/policy`, and
handles everything that happens to jobs. Then the audit log has all its requests, and those of the
pods of its jobs: none may have been denied, and every granted permission must have been used.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hack.cluster.processes import NotReady

from authorization import RBAC, Permission, judge, of_account

from .faults.jobs import chainer_job, work
from .install_support import (
    ACCOUNT,
    DEPLOY,
    NAME,
    POLICY,
    User,
    denied,
    namespace,
    refusal,
    refused,
    uninstall,
)
from .life import Life

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

Document = dict[str, Any]
SPACE = "install-rbac"

STREAMED = {
    "serviceaccounts",
    "configmaps",
    "roles",
    "rolebindings",
    "statefulsets",
    "jobs",
    "services",
    "pods",
    "poddisruptionbudgets",
    "networkpolicies",
}
"""Listed only where the API server's feature WatchList is off, which it is not here. The test of
the embedded cluster (`suites/install/test_permissions.py`) has one without it."""

GATED = ("scheduling.k8s.io", "podgroups")
"""Served by Kubernetes with the feature gate GenericWorkload only, which is off here; the embedded
cluster serves them."""

SYSTEM = "kube-system"
CHILD: Document = {"apiVersion": "v1", "metadata": {"name": "attack"}}

KEPT = {Permission("", "pods", "list")}
"""In the Role of a job since kubeflow/chainer-operator; our own scripts do not need it."""


@pytest.fixture
def user(cluster: RealCluster) -> Iterator[User]:
    """A user with jobs, and an operator installed from `deploy/` that a policy limits."""
    uninstall(cluster)
    with namespace(cluster, SPACE) as found:
        cluster.kubectl("apply", "-k", str(POLICY))
        try:
            cluster.kubectl("create", "-f", str(DEPLOY))
            found.rolled_out()
            found.until("the policy works", lambda: refused(found, CHILD | {"kind": "ConfigMap"}))
            yield found
        finally:
            cluster.kubectl("delete", "-k", str(POLICY))
    uninstall(cluster)


def the_policy_limits_a_taken_operator(cluster: RealCluster, user: User) -> None:
    """Check what the policy refuses: RBAC allows it, and the life of jobs did not need it."""
    kind = "the operator creates only children of jobs"
    secret = CHILD | {"kind": "Secret", "type": "kubernetes.io/service-account-token"}
    service = CHILD | {"kind": "Service", "spec": {"ports": [{"port": 1}]}}
    owner = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "ChainerJob", "name": "x", "uid": "y"}
    about = {"name": "attack", "ownerReferences": [owner]}
    owned = {"metadata": about}
    token = {"metadata": about | {"annotations": {"kubernetes.io/service-account.name": "default"}}}
    for document, said in (
        (CHILD | {"kind": "Pod", **chainer_job("a", work(1))["spec"]["master"]["template"]}, kind),
        (service, kind),
        (secret | token, "the operator writes only ssh keys, no tokens"),
        (
            service | owned | {"spec": service["spec"] | {"externalIPs": ["192.0.2.1"]}},
            "the operator diverts no addresses",
        ),
        (
            CHILD | {"kind": "ConfigMap", "metadata": {"name": "attack", "namespace": SYSTEM}},
            "the operator serves no jobs in this namespace",
        ),
    ):
        where = User(cluster, document["metadata"].get("namespace", SPACE))
        assert f"denied request: {said}" in refused(where, document)
    user.create(CHILD | {"kind": "ConfigMap", "metadata": {"name": "of-others"}})
    for command in (
        ("patch", "configmap", "of-others", "--patch", '{"data": {"a": "b"}}'),
        ("label", "serviceaccount", "default", "a=b"),
    ):
        with pytest.raises(NotReady, match="the operator changes only jobs, their children and"):
            user.kubectl(*command, f"--as={ACCOUNT}")
    pod = cluster.kubectl("get", "pods", "-n", NAME, "-o", "name").split()[0]
    with pytest.raises(NotReady, match="the operator runs no commands in pods"):
        cluster.kubectl("exec", "-n", NAME, pod, f"--as={ACCOUNT}", "--", "true")
    # What it does all the time.
    assert refused(user, CHILD | {"kind": "ConfigMap"} | owned) == ""
    user.kubectl("create", "configmap", "asked", "--dry-run=server", f"--as={ACCOUNT}")


def test_everything_granted_is_used_and_nothing_is_denied(cluster: RealCluster, user: User) -> None:
    life = Life(cluster, user)
    life.live()

    entries = user.requests(ACCOUNT)
    judgement = judge(granted(), {of_audit(entry) for entry in entries} | life.implied)
    unused = [
        permission
        for permission in judgement.unused
        if not (permission.verb == "list" and permission.resource in STREAMED)
        and (permission.group, permission.resource) != GATED
    ]
    assert [text for entry in entries if (text := refusal(entry))] == []
    assert judgement.denied == []
    assert unused == []

    # And what the operator holds only in order to grant it: the pods of the job need it.
    pods = {
        of_audit(entry)
        for entry in user.requests(f"system:serviceaccount:{SPACE}:life-launcher")
        if not refusal(entry)
    }
    # Checked by the API server itself when a command is started over a websocket.
    pods |= {each._replace(verb="create") for each in pods if each.resource == "pods/exec"}
    used = {each[:3] for each in pods}
    assert {each[:3] for each in life.role} - used == {each[:3] for each in KEPT}

    the_policy_limits_a_taken_operator(cluster, user)


def granted() -> set[Permission]:
    """Return the permissions that `deploy/` grants to the operator."""
    documents = [
        document
        for path in sorted(DEPLOY.glob("*.yaml"))
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader)
    ]
    return of_account(documents, NAME, NAME)


@pytest.mark.parametrize(
    ("verbs", "requests"),
    [(["get", "create"], 1), (["create"], 2), (["get"], None)],
    ids=["both", "create", "get"],
)
def test_what_kubectl_exec_takes(
    cluster: RealCluster, verbs: list[str], requests: int | None
) -> None:
    """The Role of a job needs both verbs: with `create` alone kubectl tries twice."""
    uninstall(cluster)
    with namespace(cluster, SPACE) as user:
        pod = chainer_job("target", work(600))["spec"]["master"]["template"]
        user.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "target"}, **pod})
        user.kubectl("create", "serviceaccount", "caller")
        rules = [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs},
        ]
        metadata = {"name": "caller"}
        user.create(
            {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
        )
        user.kubectl(
            "create", "rolebinding", "caller", "--role=caller", f"--serviceaccount={SPACE}:caller"
        )
        user.kubectl("wait", "pod/target", "--for=condition=Ready", "--timeout=120s")
        caller = f"system:serviceaccount:{SPACE}:caller"
        user.until("the role", lambda: reads_pods(user, caller))
        before = len(executed(user, caller))
        exec_as = [f"--as={caller}", "exec", "target", "--", "echo", "hello"]
        if requests is None:
            with pytest.raises(NotReady, match='cannot create resource "pods/exec"'):
                user.kubectl(*exec_as)
            return
        assert user.kubectl(*exec_as).strip() == "hello"
        assert len(executed(user, caller)) - before == requests


def executed(user: User, account: str) -> set[str]:
    """Return the requests for commands in pods, by their identity in the audit log."""
    entries = user.requests(account)
    return {
        entry["auditID"] for entry in entries if entry["objectRef"].get("subresource") == "exec"
    }


def reads_pods(user: User, account: str) -> bool:
    try:
        return bool(user.kubectl(f"--as={account}", "get", "pod", "target", "-o", "name"))
    except NotReady:
        return False


def test_without_the_finalizers_permission_no_child_can_be_created(
    cluster: RealCluster, user: User
) -> None:
    """An admission plugin checks it, not in the audit log; a job reports the missing right."""
    role = json.loads(cluster.kubectl("get", "clusterrole", NAME, "-o", "json"))
    role["rules"] = [
        rule for rule in role["rules"] if rule["resources"] != ["chainerjobs/finalizers"]
    ]
    cluster.kubectl("replace", "-f", "-", stdin=json.dumps(role))
    may = ("update", "chainerjobs", "--subresource=finalizers", f"--as={ACCOUNT}")
    user.until("the API server has seen it", lambda: denied(cluster, *may))
    user.create(chainer_job("held-up", "echo hello"))

    text = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't"
    user.until_phase("held-up", "Created", reason="FailedSynced", message=text)
    cluster.kubectl("apply", "-f", str(DEPLOY / "2-rbac.yaml"))
    user.until_phase("held-up", "Succeeded")


def of_audit(entry: Document) -> Permission:
    """Return the permission that a request needed."""
    reference = entry["objectRef"]
    subresource = reference.get("subresource")
    return Permission(
        reference.get("apiGroup", ""),
        reference["resource"] + (f"/{subresource}" if subresource else ""),
        entry["verb"],
        reference.get("namespace"),
        reference.get("name"),
    )
