"""Least privilege on a cluster that enforces it, judged by its audit log.

The operator is installed from `deploy/` and lives through everything that happens to jobs. Then
the log of the API server says what it asked for, and what the pods of its jobs did: nothing may
have been denied, and everything that is granted must have been used.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hack.cluster.processes import NotReady

from authorization import Permission, implied, judge, of_account, of_rules
from traincrew.plan.chainerjob_children import LABEL_NAME
from traincrew.plan.openmpi import AGENT

from .faults_support_jobs import IMAGE, UNTIL_TOLD, chainer_job, work
from .install_support import (
    ACCOUNT,
    DEPLOY,
    NAME,
    User,
    denied,
    elastic_job,
    namespace,
    uninstall,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hack.cluster import RealCluster

Document = dict[str, Any]
SPACE = "install-rbac"
PLURALS = {"ChainerJob": "chainerjobs", "ElasticJob": "elasticjobs"}
CHILDREN = "serviceaccounts,roles,rolebindings,configmaps,statefulsets,jobs"
ELASTIC = "group-name=elastic.pytorch.org"
RBAC = "rbac.authorization.k8s.io"

STREAMED = {
    "serviceaccounts",
    "configmaps",
    "roles",
    "rolebindings",
    "statefulsets",
    "jobs",
    "services",
    "pods",
}
"""Listed only where the API server's feature WatchList is off, which it is not here. The test of
the embedded cluster (`tests/operator/test_manifests_rbac.py`) has one without it."""

NEW_KIND = "cannot find RESTMapping"
"""Said by admission of a kind it has not heard of yet; it looks for new ones every 30 s."""

KEPT = {Permission("", "pods", "list")}
"""In the Role of a job since kubeflow/chainer-operator; our own scripts do not need it."""


@pytest.fixture
def user(cluster: RealCluster) -> Iterator[User]:
    """Somebody with jobs, and an operator installed from `deploy/`."""
    uninstall(cluster)
    with namespace(cluster, SPACE) as found:
        cluster.kubectl("create", "-f", str(DEPLOY))
        found.rolled_out()
        yield found
    uninstall(cluster)


def test_everything_granted_is_used_and_nothing_is_denied(cluster: RealCluster, user: User) -> None:
    life = Life(cluster, user)
    life.live()

    entries = user.requests(ACCOUNT)
    judgement = judge(granted(), {of_audit(entry) for entry in entries} | life.implied)
    unused = [
        permission
        for permission in judgement.unused
        if not (permission.verb == "list" and permission.resource in STREAMED)
    ]
    assert [text for entry in entries if (text := refusal(entry))] == []
    assert judgement.denied == []
    assert unused == []

    # And what the operator only holds to be allowed to grant it: the pods of the job need it.
    pods = {
        of_audit(entry)
        for entry in user.requests(f"system:serviceaccount:{SPACE}:life-launcher")
        if not refusal(entry)
    }
    # Asked by the API server itself when a command is started over a websocket.
    pods |= {each._replace(verb="create") for each in pods if each.resource == "pods/exec"}
    used = {each[:3] for each in pods}
    assert {each[:3] for each in life.role} - used == {each[:3] for each in KEPT}


def granted() -> set[Permission]:
    """What `deploy/` gives to the operator."""
    documents = [
        document
        for path in sorted(DEPLOY.glob("*.yaml"))
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader)
    ]
    return of_account(documents, NAME, NAME)


def refusal(entry: Document) -> str:
    """Why a request was not allowed; empty if it was, or would have been some seconds later."""
    status = entry.get("responseStatus", {})
    text = str(status.get("message", ""))
    return text if status.get("code") == 403 and NEW_KIND not in text else ""


@pytest.mark.parametrize(
    ("verbs", "requests"),
    [(["get", "create"], 1), (["create"], 2), (["get"], None)],
    ids=["both", "create", "get"],
)
def test_what_kubectl_exec_takes(
    cluster: RealCluster, verbs: list[str], requests: int | None
) -> None:
    """Why the Role of a job names both verbs: with `create` alone kubectl tries twice."""
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
    """Requests for commands in pods, by their identity in the audit log."""
    entries = user.requests(account)
    return {
        entry["auditID"] for entry in entries if entry["objectRef"].get("subresource") == "exec"
    }


def reads_pods(user: User, account: str) -> bool:
    try:
        return bool(user.kubectl(f"--as={account}", "get", "pod", "target", "-o", "name"))
    except NotReady:
        return False


def test_without_finalizers_no_child_can_be_made(cluster: RealCluster, user: User) -> None:
    """Asked by an admission plugin, and so in no audit log; a job says what is missing."""
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
    """What a request asked for."""
    reference = entry["objectRef"]
    subresource = reference.get("subresource")
    return Permission(
        reference.get("apiGroup", ""),
        reference["resource"] + (f"/{subresource}" if subresource else ""),
        entry["verb"],
        reference.get("namespace"),
        reference.get("name"),
    )


class Life:
    """Everything that happens to jobs, once."""

    def __init__(self, cluster: RealCluster, user: User) -> None:
        self.cluster = cluster
        self.user = user
        self.implied: set[Permission] = set()
        self.role: set[Permission] = set()

    def live(self) -> None:
        self.scaled_mended_and_suspended()
        self.another_leads()
        self.ended_and_gone()
        for child, document in FOREIGN.items():
            self.something_in_the_way(child, document)
        self.elastic()
        for document in (
            FOREIGN_SERVICE,
            {"apiVersion": "v1", "kind": "Pod", **pod_template("Never")},
        ):
            self.something_in_the_way_of_a_worker(document)

    def scaled_mended_and_suspended(self) -> None:
        user = self.user
        rank = f"set -e; {AGENT} life-workerset-ws0-0 echo over there; {UNTIL_TOLD}"
        manifest = chainer_job("life", rank, workers=2, cleanPodPolicy="All")
        del manifest["spec"]["backend"]  # which is filled in
        user.create(manifest)
        user.until_phase("life", "Running", workersReady="2/2")
        self.rank_has_run()

        user.edit("life", {"workerSets": {"ws0": {"replicas": 3}}})
        user.until_phase("life", "Running", workersReady="3/3")
        user.until("the event again", self.synced_again)
        self.take_notes()

        nothing = json.dumps({"subjects": []})
        user.kubectl(
            "patch", "rolebinding", "life-launcher-rolebinding", "--type=merge", "-p", nothing
        )
        gone = json.dumps({"data": {"kubexeb.sh": "gone"}})
        user.kubectl("patch", "configmap", "life-assets", "--type=merge", "-p", gone)
        user.until("the children are mended", self.mended)

        user.edit("life", {"runPolicy": {"suspend": True}})
        user.until_phase("life", "Suspended", reason="ChainerJobSuspended")
        user.edit("life", {"runPolicy": {"suspend": False, "activeDeadlineSeconds": 3600}})
        user.until_phase("life", "Running", workersReady="3/3")
        self.rank_has_run()  # before its worker goes away: without it, the master fails

        worker_set = manifest["spec"]["workerSets"]["ws0"]
        user.edit("life", {"workerSets": {"ws0": None, "other": {**worker_set, "replicas": 1}}})
        user.until("the set is gone", lambda: not user.get("statefulset", "life-workerset-ws0"))

    def rank_has_run(self) -> None:
        """Wait until the master, which has started, has run its rank on a worker."""
        log = ("logs", "-l", "job-name=life-master", "-c", "chainer")
        self.user.until("a rank on a worker", lambda: "over there" in self.user.kubectl(*log))

    def synced_again(self) -> bool:
        events = self.user.items("events", "--field-selector=reason=Synced")
        return any(event.get("count", 1) > 1 for event in events)

    def mended(self) -> bool:
        binding = self.user.get("rolebinding", "life-launcher-rolebinding")
        assets = self.user.get("configmap", "life-assets")
        return bool(binding.get("subjects")) and assets["data"]["kubexeb.sh"] != "gone"

    def take_notes(self) -> None:
        """What the API server wanted to know about the objects the operator has made."""
        for child in self.user.items(CHILDREN, "-l", LABEL_NAME):
            self.implied |= implied(child, PLURALS)
            if child["metadata"]["name"] == "life-launcher-role":
                self.role |= of_rules(child["rules"])

    def another_leads(self) -> None:
        """The leader is deleted; the other one, which watches the Lease, goes on."""
        user = self.user

        def holder() -> str:
            lease = json.loads(
                self.cluster.kubectl("get", "lease", NAME, f"--namespace={NAME}", "-o", "json")
            )
            name: str = lease["spec"].get("holderIdentity", "")
            return name

        before = holder()
        (leader,) = [
            pod["metadata"]["name"]
            for pod in user.operators()
            if before.startswith(pod["metadata"]["name"])
        ]
        self.cluster.kubectl("delete", "pod", leader, f"--namespace={NAME}", "--wait=false")
        user.until("another leader", lambda: holder() not in {"", before})

    def ended_and_gone(self) -> None:
        user = self.user
        user.edit("life", {"runPolicy": {"ttlSecondsAfterFinished": 5}})
        user.end_master("life")
        user.until(
            "its pods are deleted", lambda: not user.items("pods", "-l", "job-name=life-master")
        )
        user.until("the job is deleted", lambda: not user.get("chainerjob", "life"))

    def elastic(self) -> None:
        """Limits are filled in, workers come and go, and at last the job does."""
        user = self.user
        user.create(elastic_job("grows", UNTIL_TOLD, workers=2))
        user.until(
            "the workers run", lambda: self.elastic_status("grows").get("phase") == "Running"
        )
        for child in user.items("pods,services", "-l", ELASTIC):
            self.implied |= implied(child, PLURALS)
        self.edit_elastic("grows", {"minReplicas": 1})
        user.kubectl("scale", "elasticjob", "grows", "--replicas=1")
        user.until("one is left", lambda: len(user.items("pods,services", "-l", ELASTIC)) == 2)
        user.until("it runs", lambda: self.elastic_status("grows").get("workersReady") == "1/1")
        self.edit_elastic("grows", {"ttlSecondsAfterFinished": 1})
        user.end("grows-worker-0")
        user.until("the job is deleted", lambda: not user.get("elasticjob", "grows"))

    def elastic_status(self, job: str) -> Document:
        status: Document = self.user.get("elasticjob", job).get("status", {})
        return status

    def edit_elastic(self, job: str, spec: Document) -> None:
        patch = json.dumps({"spec": spec})
        self.user.kubectl("patch", "elasticjob", job, "--type=merge", "-p", patch)

    def something_in_the_way_of_a_worker(self, document: Document) -> None:
        user, job = self.user, f"no-{document['kind'].lower()}"
        name = f"{job}-worker-0"
        metadata = {**document.get("metadata", {}), "name": name}
        user.create({**document, "metadata": metadata})
        user.create(elastic_job(job, work(600), workers=1))
        user.until(
            f"{job} says what is in the way",
            lambda: f'"{name}" already exists' in self.elastic_status(job).get("message", ""),
        )
        user.kubectl("delete", "elasticjob", job)

    def something_in_the_way(self, child: str, document: Document) -> None:
        """An object that has the name of a child, and is somebody else's."""
        user = self.user
        kind = document["kind"].lower()
        user.create({**document, "metadata": {"name": f"{kind}-{child}"}})
        user.create(chainer_job(kind, work(600), workers=1))
        user.until_phase(
            kind, "Created", reason="ErrResourceExists", message=f'"{kind}-{child}" already exists'
        )
        self.take_notes()
        user.kubectl("delete", "chainerjob", kind)


def pod_template(policy: str) -> Document:
    container = {"name": "c", "image": IMAGE, "command": ["true"]}
    return {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": policy, "containers": [container]},
    }


FOREIGN: dict[str, Document] = {
    "launcher": {"apiVersion": "v1", "kind": "ServiceAccount"},
    "launcher-role": {"apiVersion": f"{RBAC}/v1", "kind": "Role", "rules": []},
    "launcher-rolebinding": {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "x"},
    },
    "assets": {"apiVersion": "v1", "kind": "ConfigMap"},
    "workerset-ws0": {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": pod_template("Always"),
        },
    },
    "master": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"suspend": True, "template": pod_template("Never")},
    },
}
"""Objects with the name of a child, by what follows the job's name in it."""

FOREIGN_SERVICE: Document = {
    "apiVersion": "v1",
    "kind": "Service",
    "spec": {"clusterIP": "None", "selector": {"a": "b"}},
}
