"""A program in a container of a real cluster reports to an operator that is installed for it.

The operator is limited by the admission policy of `config/policy`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hack.cluster.processes import NotReady

from traincrew.operator.manifests import render
from traincrew.operator.manifests.values import parse

from .install_support import ACCOUNT, NAME, POLICY, User, namespace, refused, uninstall

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hack.cluster import RealCluster

SERVICE = f"{NAME}-progress"
IMAGE = "docker.io/traincrew/chainermn:0.1.0"
PROGRAM = """
import json, os, ssl, time, urllib.request
names = ("URL", "CA_CERT", "TOKEN")
settings = {name: os.environ["KUBEFLOW_TRAINER_SERVER_" + name] for name in names}
context = ssl.create_default_context(cafile=settings["CA_CERT"])
def report(percentage):
    status = {"progressPercentage": percentage, "metrics": [{"name": "loss", "value": "0.5"}]}
    token = open(settings["TOKEN"]).read()
    request = urllib.request.Request(
        settings["URL"], json.dumps({"trainerStatus": status}).encode(),
        {"Authorization": "Bearer " + token}, method="POST")
    with urllib.request.urlopen(request, timeout=5, context=context) as answer:
        return answer.status
def until_reported(percentage):
    while True:
        try:
            return print("reported", percentage, report(percentage), flush=True)
        except OSError as error:
            print(error, flush=True)
            time.sleep(0.5)
until_reported(10)
while not os.path.exists("/tmp/go-on"):
    time.sleep(0.2)
until_reported(90)
"""


@pytest.fixture
def user(cluster: RealCluster, tmp_path: Path) -> Iterator[User]:
    """A user of an operator with two replicas that receives reports, and that a policy limits."""
    uninstall(cluster)
    files = render(parse({"progress": {"enabled": True}}))
    path = tmp_path / "operator.yaml"
    path.write_text("---\n".join(files.values()))
    with namespace(cluster, "progress") as found:
        cluster.kubectl("apply", "-k", str(POLICY))
        try:
            attack = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "attack"}}
            cluster.kubectl("create", "-f", str(path))
            found.until("the policy works", lambda: "denied request" in refused(found, attack))
            found.rolled_out()
            # Both objects are made under the policy.
            cluster.kubectl(f"--namespace={NAME}", "delete", "secret", f"{SERVICE}-ca")
            cluster.kubectl(
                f"--namespace={NAME}", "delete", "endpointslice", SERVICE, "--ignore-not-found"
            )
            cluster.kubectl(f"--namespace={NAME}", "rollout", "restart", f"deployment/{NAME}")
            found.rolled_out()
            yield found
        finally:
            cluster.kubectl("delete", "-k", str(POLICY))
            uninstall(cluster)
            cluster.kubectl("delete", "-f", str(path), "--ignore-not-found", "--timeout=180s")


def job() -> dict[str, Any]:
    container = {
        "name": "chainer",
        "image": IMAGE,
        "command": ["python3", "-c", PROGRAM],
        # As a user of its own, who must be able to read the token.
        "securityContext": {"runAsUser": 4711, "runAsNonRoot": True},
    }
    return {
        "apiVersion": "kubeflow.org/v1alpha1",
        "kind": "ChainerJob",
        "metadata": {"name": "digits"},
        "spec": {"master": {"template": {"spec": {"containers": [container]}}}},
    }


def test_reports_reach_the_leader_before_and_after_a_failover(
    cluster: RealCluster, user: User
) -> None:
    first = ""

    def percentage() -> Any:
        status = user.get("chainerjob", "digits").get("status", {})
        return status.get("progress", {}).get("percentage")

    def leader() -> str:
        """The pod that is the endpoint of the Service."""
        text = cluster.kubectl(f"--namespace={NAME}", "get", "endpointslice", SERVICE, "-ojson")
        (endpoint,) = json.loads(text)["endpoints"]
        names = [
            str(pod["metadata"]["name"])
            for pod in user.operators()
            if pod["status"].get("podIP") in endpoint["addresses"]
        ]
        return names[0] if names else first

    user.create(job())
    user.until("10 %", lambda: percentage() == 10)

    first = leader()
    cluster.kubectl(f"--namespace={NAME}", "delete", "pod", first, "--wait=false")
    user.until("another leader", lambda: leader() != first)
    (pod,) = user.items("pods", "-l", "job-name=digits-master")
    user.kubectl("exec", pod["metadata"]["name"], "--", "touch", "/tmp/go-on")

    user.until_phase("digits", "Succeeded")
    assert percentage() == 90
    requests = user.requests(ACCOUNT)
    assert [each for each in requests if each["objectRef"]["resource"] == "tokenreviews"]
    denied = [each for each in requests if each.get("responseStatus", {}).get("code") == 403]
    assert [each for each in denied if each["objectRef"].get("name") != "attack"] == []
    the_policy_allows_no_other_objects(cluster)


def the_policy_allows_no_other_objects(cluster: RealCluster) -> None:
    """Check what is like the two objects of progress, and is neither of them."""
    own, of_jobs = User(cluster, NAME), User(cluster, "progress")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{SERVICE}-ca"}}
    said = "denied request: the operator creates only children of jobs"
    for where, document in (
        (of_jobs, secret),
        (own, {**secret, "metadata": {"name": "attack"}}),
        (own, endpoint_slice("attack", SERVICE)),
        (own, endpoint_slice(SERVICE, f"{NAME}-metrics")),
    ):
        assert said in refused(where, document)
    diverted = json.dumps(endpoint_slice(SERVICE, f"{NAME}-metrics"))
    apply = ("apply", "--server-side", "--force-conflicts", f"--as={ACCOUNT}", "-f", "-")
    with pytest.raises(NotReady, match="the operator changes only jobs, their children and pods"):
        own.kubectl(*apply, stdin=diverted)


def endpoint_slice(name: str, service: str) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"]}],
    }
