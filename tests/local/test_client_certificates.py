"""Certificates that the cluster has signed are credentials, those of kubelets' servers are not."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from local.certificates import KEY, condition, request, signing_request
from local.test_standalone import ask
from traincrew.engine.resources import CONFIG_MAPS
from traincrew.local.authority import ClientAuthority
from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.controllers.certificates.plan import CERTIFICATE_SIGNING_REQUESTS as REQUESTS

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.inprocess import InProcessServer

DEADLINE = 60.0
KEY_DATA = b64encode(KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())).decode()
WHO = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
WHO_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def signed(server: InProcessServer, document: dict[str, Any]) -> str:
    """Approve a request, and return the certificate as in ``status.certificate``."""
    found = await answered(server, document, "certificate")
    assert isinstance(found, str)
    return found


async def answered(server: InProcessServer, document: dict[str, Any], key: str) -> Any:
    """Approve a request, and return a field of its status once it has one that was not there."""
    name = document["metadata"]["name"]
    async with server.make_client() as client:
        await client.create(REQUESTS, document)
        patch = {"status": {"conditions": [condition()]}}
        approved = await client.patch(REQUESTS, name, patch=patch, subresource="approval")
        async with asyncio.timeout(DEADLINE):
            while (found := (await client.get(REQUESTS, name))["status"].get(key)) == approved[
                "status"
            ].get(key):
                await asyncio.sleep(0.01)
        return found


def with_certificate(kubeconfig: dict[str, Any], certificate: str) -> dict[str, Any]:
    """Return a kubeconfig with a certificate instead of a token."""
    user = {"client-certificate-data": certificate, "client-key-data": KEY_DATA}
    return {**kubeconfig, "users": [{"name": "x", "user": user}]}


async def test_a_signed_certificate_is_a_credential(tmp_path: Path) -> None:
    options = ClusterOptions(directory=tmp_path / "state", sandbox="bare")
    async with LocalCluster(options) as cluster:
        document = signing_request(request=request("jane", "dev"))
        content = await signed(cluster, document)
        certificate = x509.load_pem_x509_certificate(b64decode(content))
        assert certificate.subject.rfc4514_string() == "CN=jane,O=dev"
        assert certificate.not_valid_after_utc > datetime.now(UTC)
        extended = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(extended) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
        assert usage.digital_signature
        assert not usage.key_cert_sign
        assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        async with cluster.make_client() as client:
            name = "extension-apiserver-authentication"
            trusted = (await client.get(CONFIG_MAPS, name, "kube-system"))["data"]["client-ca-file"]
        *_, authority = x509.load_pem_x509_certificates(trusted.encode())
        certificate.verify_directly_issued_by(authority)

        jane = with_certificate(cluster.kubeconfig(), content)
        code, body = await ask(jane, WHO_PATH, tmp_path, method="POST", json=WHO)
        assert (code, body["status"]["userInfo"]["username"]) == (201, "jane")
        assert body["status"]["userInfo"]["groups"] == ["dev", "system:authenticated"]
        assert (await ask(jane, "/api/v1/secrets", tmp_path))[0] == 403
        # Tokens go on to count, of clients without a certificate.
        token = {"Authorization": f"Bearer {cluster.server.token}"}
        for headers, code in ({}, 401), (token, 200):
            found = await ask(cluster.kubeconfig(), "/api/v1/secrets", tmp_path, headers=headers)
            assert found[0] == code
    async with LocalCluster(options) as cluster:
        jane = with_certificate(cluster.kubeconfig(), content)
        assert (await ask(jane, WHO_PATH, tmp_path, method="POST", json=WHO))[0] == 201


async def test_a_certificate_of_a_kubelets_server_is_none(tmp_path: Path) -> None:
    async with LocalCluster(ClusterOptions(sandbox="bare")) as cluster:
        serving = signing_request(
            request=request("system:node:n", "system:nodes", dns="n"),
            signerName="kubernetes.io/kubelet-serving",
            usages=["server auth", "digital signature", "key encipherment"],
        )
        node = with_certificate(cluster.kubeconfig(), await signed(cluster, serving))
        with pytest.raises(aiohttp.ClientError):
            await ask(node, "/api", tmp_path)


async def test_what_a_signer_refuses_has_failed() -> None:
    async with LocalCluster(ClusterOptions(sandbox="bare")) as cluster:
        wrong = signing_request(usages=["server auth"])
        _, failed = await answered(cluster, wrong, "conditions")
        assert failed["type"] == "Failed"
        assert failed["message"] == "invalid usage for client certificate: server auth"
        assert ClientAuthority.stored(cluster.directory) is None
