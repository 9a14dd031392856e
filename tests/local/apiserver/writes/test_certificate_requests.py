"""CertificateSigningRequests: who asks, who approves, and what may be changed."""

import base64
from typing import Any

import pytest

from local.apiserver.authorization.support import Robot, rule
from local.apiserver.support import MERGE, TABLE, Api
from local.certificates import condition, request, signing_request

GROUP = "certificates.k8s.io"
PATH = f"/apis/{GROUP}/v1/certificatesigningrequests"
JANE = f"{PATH}/jane"
MERGING = {"content_type": MERGE}

Document = dict[str, Any]


async def test_a_request_says_who_sent_it(api: Api) -> None:
    forged = signing_request(username="root", groups=["system:masters"], uid="1")
    created = (await api.post(PATH, forged)).ok(201)
    assert created["spec"]["username"] == "traincrew:admin"
    assert "uid" not in created["spec"]
    assert created["status"] == {}
    robot = await Robot.create(api)
    await robot.grant(rule("create", "certificatesigningrequests", GROUP), cluster=True)
    theirs = (await robot.post(PATH, signing_request("robot"))).ok(201)["spec"]
    assert theirs["username"] == "system:serviceaccount:default:robot"
    assert "system:serviceaccounts" in theirs["groups"]
    assert theirs["uid"]
    changed = {"spec": {"usages": ["server auth"], "username": "root"}}
    assert (await api.patch(f"{PATH}/robot", changed)).ok()["spec"] == theirs
    (found,) = (await api.get(PATH, fieldSelector="spec.signerName!=x")).ok()["items"][:1]
    assert found["metadata"]["name"] == "jane"


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"request": base64.b64encode(b"no").decode()}, "request", "PEM block type must be"),
        ({"request": request().replace("A", "B", 3)}, "request", ""),
        ({"usages": []}, "usages", "Required"),
        ({"usages": ["flying"]}, "usages[0]", 'Unsupported value: "flying"'),
        ({"usages": ["any", "any"]}, "usages[1]", "Duplicate"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "signerName", "legacy signerName"),
        ({"signerName": "nothing"}, "signerName", "must be a fully qualified domain and path"),
        ({"signerName": "example/x"}, "signerName", "at least two segments"),
        ({"signerName": "example.com/X"}, "signerName", 'validating label "X"'),
        ({"expirationSeconds": 599}, "expirationSeconds", "less than 600 seconds"),
    ],
)
async def test_rules(api: Api, spec: Document, field: str, message: str) -> None:
    causes = (await api.post(PATH, signing_request(**spec))).refused(422)["details"]["causes"]
    assert any(
        each["field"] == f"spec.{field}" and message in each["message"] for each in causes
    ), causes


async def test_nobody_gets_a_certificate_of_an_administrator(api: Api) -> None:
    masters = signing_request(request=request("jane", "system:masters"))
    refused = (await api.post(PATH, masters)).refused(403, "Forbidden")
    assert "with system:masters group is not allowed" in refused["message"]


async def test_a_request_is_approved_once_and_for_all(api: Api) -> None:
    created = (await api.post(PATH, signing_request(expirationSeconds=3600))).ok(201)
    approved = created | {"status": {"conditions": [condition()], "certificate": "eA=="}}
    found = (await api.put(f"{JANE}/approval", approved)).ok()
    (added,) = found["status"]["conditions"]
    assert added["lastUpdateTime"] == added["lastTransitionTime"]
    assert "certificate" not in found["status"]  # not for approvers to set
    both = {"status": {"conditions": [condition(), condition("Denied")]}}
    refused = (await api.patch(f"{JANE}/approval", both)).refused(422)
    assert "mutually exclusive" in refused["message"]
    for changed in ([], [condition("Denied")]):
        refused = (
            await api.patch(f"{JANE}/approval", {"status": {"conditions": changed}})
        ).refused(422)
        assert 'may not remove a condition of type "Approved"' in refused["message"]
    wrong = {"status": {"conditions": [condition(), condition("Failed", status="False")]}}
    refused = (await api.patch(f"{JANE}/status", wrong)).refused(422)
    assert 'Unsupported value: "False"' in refused["message"]
    assert (await api.get(f"{JANE}/approval")).ok()["status"] == found["status"]
    row = (await api.get(JANE, headers={"Accept": TABLE})).ok()["rows"][0]["cells"]
    assert row[2:] == [
        "kubernetes.io/kube-apiserver-client",
        "traincrew:admin",
        "60m",
        "Approved",
    ]


async def test_a_signer_sets_the_certificate_but_does_not_approve(api: Api) -> None:
    (await api.post(PATH, signing_request())).ok(201)
    refused = (
        await api.patch(f"{JANE}/status", {"status": {"conditions": [condition()]}})
    ).refused(422)
    assert 'may not add a condition of type "Approved"' in refused["message"]
    refused = (await api.patch(f"{JANE}/status", {"status": {"certificate": "eA=="}})).refused(422)
    assert "must contain at least one CERTIFICATE PEM block" in refused["message"]
    key = base64.b64encode(b"-----BEGIN PRIVATE KEY-----\n").decode()
    refused = (await api.patch(f"{JANE}/status", {"status": {"certificate": key}})).refused(422)
    assert "only CERTIFICATE PEM blocks are allowed" in refused["message"]


async def test_approving_and_signing_need_a_right_for_the_signer(api: Api) -> None:
    (await api.post(PATH, signing_request())).ok(201)
    robot = await Robot.create(api)
    subresources = "certificatesigningrequests/approval certificatesigningrequests/status"
    await robot.grant(rule("update patch", subresources, GROUP), cluster=True)
    approval = {"status": {"conditions": [condition()]}}
    failure = {"status": {"conditions": [condition(), condition("Failed")]}}
    refused = (await robot.request("PATCH", f"{JANE}/approval", approval, **MERGING)).refused(403)
    assert "user not permitted to approve requests with signerName" in refused["message"]
    await robot.grant(rule("approve", "signers", GROUP, "kubernetes.io/*"), cluster=True)
    (await robot.request("PATCH", f"{JANE}/approval", approval, **MERGING)).ok()
    refused = (await robot.request("PATCH", f"{JANE}/status", failure, **MERGING)).refused(403)
    assert "user not permitted to sign requests with signerName" in refused["message"]
    labels = {"metadata": {"labels": {"a": "b"}}}
    (await robot.request("PATCH", f"{JANE}/status", labels, **MERGING)).ok()
    await robot.grant(
        rule("sign", "signers", GROUP, "kubernetes.io/kube-apiserver-client"), cluster=True
    )
    (await robot.request("PATCH", f"{JANE}/status", failure, **MERGING)).ok()
