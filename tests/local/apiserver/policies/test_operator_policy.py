"""The policy of `config/policy` limits the operator here as it does on a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from local.apiserver.policies.support import install
from local.apiserver.support import MERGE, Api, pod

POLICY = Path(__file__).parents[4] / "config" / "policy" / "operator.yaml"
OPERATOR = "system:serviceaccount:chainer-operator:chainer-operator"
AS_OPERATOR = {"Impersonate-User": OPERATOR}
CORE = "/api/v1/namespaces/default"
OWNERS = [
    {
        "apiVersion": "traincrew.dev/v1",
        "kind": "MPICluster",
        "name": "j",
        "uid": "u",
        "controller": True,
    }
]
BY = "ValidatingAdmissionPolicy 'chainer-operator' with binding 'chainer-operator' denied request"


def core(kind: str, name: str, *, child: bool = False, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"ownerReferences": OWNERS} if child else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **more}


@pytest.fixture
async def limited(api: Api) -> Api:
    """A cluster with the policy, whose operator may do anything by its roles."""
    for name in ("default", "chainer-operator"):
        if name != "default":
            (await api.post("/api/v1/namespaces", core("Namespace", name))).ok(201)
    grant = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "all"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": "chainer-operator", "namespace": "chainer-operator"}
        ],
    }
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    (await api.post(path, grant)).ok(201)
    await install(api, *yaml.safe_load_all(POLICY.read_text()))
    return api


async def test_the_operator_may_do_its_work(limited: Api) -> None:
    api, headers = limited, AS_OPERATOR
    worker = pod("w")
    worker["metadata"]["ownerReferences"] = OWNERS
    (await api.post(f"{CORE}/pods", worker, headers=headers)).ok(201)
    secret = core("Secret", "ssh", child=True, type="Opaque")
    (await api.post(f"{CORE}/secrets", secret, headers=headers)).ok(201)
    keys = core("Secret", "keys", child=True, type="kubernetes.io/ssh-auth")
    keys["data"] = {"ssh-privatekey": "a2V5"}
    (await api.post(f"{CORE}/secrets", keys, headers=headers)).ok(201)
    ports = {"ports": [{"port": 80}]}
    service = core("Service", "s", child=True, spec=ports)
    (await api.post(f"{CORE}/services", service, headers=headers)).ok(201)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "leader"},
    }
    path = "/apis/coordination.k8s.io/v1/namespaces/chainer-operator/leases"
    (await api.post(path, lease, headers=headers)).ok(201)
    certificate = core("Secret", "chainer-operator-progress-ca", type="Opaque")
    own = "/api/v1/namespaces/chainer-operator/secrets"
    (await api.post(own, certificate, headers=headers)).ok(201)
    change = {"metadata": {"labels": {"a": "b"}}}
    (await api.patch(f"{CORE}/secrets/ssh", change, MERGE, headers=headers)).ok()
    (await api.delete(f"{CORE}/secrets/ssh", headers=headers)).ok()


async def test_the_operator_may_do_nothing_else(limited: Api) -> None:
    api, headers = limited, AS_OPERATOR
    (await api.post(f"{CORE}/configmaps", core("ConfigMap", "theirs"))).ok(201)
    (await api.post(f"{CORE}/pods", pod("theirs"))).ok(201)
    token = core("Secret", "t", child=True, type="kubernetes.io/service-account-token")
    token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "default"}
    diverted = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
    account = core("ServiceAccount", "a")
    (await api.post(f"{CORE}/serviceaccounts", account)).ok(201)
    children = "the operator creates only children of jobs"
    refused = [
        (await api.post(f"{CORE}/configmaps", core("ConfigMap", "c"), headers=headers), children),
        (
            await api.post(
                "/api/v1/namespaces/kube-system/configmaps",
                core("ConfigMap", "c", child=True),
                headers=headers,
            ),
            "the operator serves no jobs in this namespace",
        ),
        (
            await api.delete(f"{CORE}/configmaps/theirs", headers=headers),
            "the operator changes only jobs, their children and pods",
        ),
        (
            await api.post(f"{CORE}/secrets", token, headers=headers),
            "the operator writes only ssh keys, no tokens",
        ),
        (
            await api.post(
                f"{CORE}/services",
                core("Service", "s", child=True, spec=diverted),
                headers=headers,
            ),
            "the operator diverts no addresses",
        ),
        (
            await api.post(f"{CORE}/pods/theirs/exec", None, headers=headers, command="sh"),
            "the operator runs no commands in pods",
        ),
        (await api.post(f"{CORE}/serviceaccounts/a/token", {}, headers=headers), children),
    ]
    for answer, message in refused:
        assert answer.refused(422)["message"].endswith(f"{BY}: {message}")


async def test_others_are_not_limited(limited: Api) -> None:
    (await limited.post(f"{CORE}/configmaps", core("ConfigMap", "c"))).ok(201)
    others = {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    (await limited.delete(f"{CORE}/configmaps/c", headers=others)).ok()
