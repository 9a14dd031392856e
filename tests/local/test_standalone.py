"""The API server without a cluster: its users, its state."""

import asyncio
import ssl
from base64 import b64decode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from traincrew.engine.errors import ForbiddenError
from traincrew.engine.resources import CONFIG_MAPS, DEPLOYMENTS, PODS, REPLICA_SETS
from traincrew.local.apiserver.http.kubeconfig import kubeconfig
from traincrew.local.authority import ClientAuthority
from traincrew.local.standalone import StandaloneOptions, StandaloneServer
from traincrew.local.statelock import StateInUseError

BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "qa"},
    # Not "view": its rules come from a controller, also upstream.
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:aggregate-to-view",
    },
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "qa"}],
}


@pytest.fixture
async def server() -> AsyncIterator[StandaloneServer]:
    async with StandaloneServer() as running:
        yield running


async def ask(
    document: dict[str, Any], path: str, tmp_path: Path, **options: Any
) -> tuple[int, dict[str, Any]]:
    """Send a request with the credentials of a kubeconfig."""
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    if "client-certificate-data" in user:
        file = tmp_path / "client.pem"
        parts = [user["client-certificate-data"], user["client-key-data"]]
        file.write_bytes(b"".join(map(b64decode, parts)))
        context.load_cert_chain(file)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.request(options.pop("method", "GET"), cluster["server"] + path, **options) as got,
    ):
        body = await got.json(content_type=None) if got.content_type != "text/plain" else {}
        return got.status, body


async def test_users_of_certificates_may_do_what_roles_say(
    server: StandaloneServer, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    alice = server.kubeconfig_of("alice", ["dev", "qa"])

    code, said = await ask(alice, path, tmp_path)
    assert code == 403
    assert said["message"] == (
        'configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group ""'
        ' in the namespace "default"'
    )
    root = server.kubeconfig_of("root", ["system:masters"])
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    code, _ = await ask(root, bindings, tmp_path, method="POST", json=BINDING)
    assert code == 201
    code, _ = await ask(alice, path, tmp_path)
    assert code == 200


async def test_the_certificate_says_who_it_is(server: StandaloneServer, tmp_path: Path) -> None:
    bob = server.kubeconfig_of("bob", ["dev", "qa"])
    code, review = await ask(
        bob,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        tmp_path,
        method="POST",
        json={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    assert code == 201
    user = review["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("bob", ["dev", "qa", "system:authenticated"])
    (credential,) = user["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")


@pytest.mark.parametrize("name", ["", "x" * 65])
async def test_names_that_a_certificate_cannot_have(server: StandaloneServer, name: str) -> None:
    with pytest.raises(ValueError, match="has 1 to 64 characters"):
        server.kubeconfig_of(name)


async def test_a_certificate_of_another_authority_is_refused(
    server: StandaloneServer, tmp_path: Path
) -> None:
    stranger = server.kubeconfig_of("alice", ["system:masters"])
    forged = ClientAuthority(tmp_path).issue("alice", ["system:masters"])
    user = kubeconfig("https://x", client=forged)["users"]
    with pytest.raises(aiohttp.ClientError):
        await ask({**stranger, "users": user}, "/api", tmp_path)


async def test_a_self_signed_certificate_may_be_its_own_authority(tmp_path: Path) -> None:
    """As kube-api-test of fabric8 makes it: no extensions, and the file of CAs is the client's."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, "kubeapitest"),
        ]
    )
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    certificate = made.public_bytes(Encoding.PEM).decode()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    (tmp_path / "client.crt").write_text(certificate)
    options = StandaloneOptions(client_authority=tmp_path / "client.crt")
    async with StandaloneServer(options) as server:
        users = kubeconfig("https://x", client=(certificate, private))["users"]
        code, _ = await ask(
            {**server.server.kubeconfig(), "users": users}, "/api/v1/secrets", tmp_path
        )
        assert code == 200
        with pytest.raises(ValueError, match="clients have certificates of another CA"):
            server.kubeconfig_of("alice")


async def test_a_certificate_counts_before_a_token(
    server: StandaloneServer, tmp_path: Path
) -> None:
    alice = server.kubeconfig_of("alice")
    headers = {"Authorization": f"Bearer {server.server.token}"}
    code, said = await ask(alice, "/api/v1/secrets", tmp_path, headers=headers)
    assert code == 403
    assert 'User "alice" cannot list' in said["message"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez", "/version"])
async def test_health_needs_no_credentials(
    server: StandaloneServer, tmp_path: Path, path: str
) -> None:
    anonymous = {**server.server.kubeconfig(), "users": [{"user": {}}]}
    code, _ = await ask(anonymous, path, tmp_path)
    assert code == 200


async def test_anonymous_users_may_do_what_roles_say(
    server: StandaloneServer, tmp_path: Path
) -> None:
    anonymous = {**server.server.kubeconfig(), "users": [{"user": {}}]}
    code, said = await ask(anonymous, "/apis/", tmp_path)
    assert code == 403
    assert said["message"] == 'forbidden: User "system:anonymous" cannot get path "/apis/"'
    code, _ = await ask(anonymous, "/api", tmp_path, headers={"Authorization": "Bearer wrong"})
    assert code == 401


async def test_without_anonymous_users_everything_needs_credentials(tmp_path: Path) -> None:
    async with StandaloneServer(StandaloneOptions(anonymous=False)) as server:
        anonymous = {**server.server.kubeconfig(), "users": [{"user": {}}]}
        code, _ = await ask(anonymous, "/healthz", tmp_path)
        assert code == 401


async def test_a_directory_keeps_objects_users_and_the_port(tmp_path: Path) -> None:
    options = StandaloneOptions(directory=tmp_path / "state")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
    async with StandaloneServer(options) as first:
        root = first.kubeconfig_of("root", ["system:masters"])
        async with first.make_client() as client:
            await client.create(CONFIG_MAPS, config, "default")
        with pytest.raises(StateInUseError):
            await StandaloneServer(options).start()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    async with StandaloneServer(options):
        code, _ = await ask(root, "/api/v1/namespaces/default/configmaps/kept", tmp_path)
        assert code == 200


async def test_nothing_is_left_of_one_in_memory() -> None:
    async with StandaloneServer() as server:
        assert Path(server.kubeconfig_path).stat().st_mode & 0o777 == 0o600
    assert not server.directory.exists()


async def test_with_controllers_a_deployment_gets_its_replica_set() -> None:
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }
    async with (
        StandaloneServer(StandaloneOptions(controllers=True)) as server,
        server.make_client() as client,
        asyncio.timeout(60),
    ):
        await client.create(DEPLOYMENTS, deployment, "default")
        while not (await client.list(REPLICA_SETS, "default"))["items"]:
            await asyncio.sleep(0.05)


def pod(account: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": account}
    metadata = {"name": "p", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def test_pods_get_the_token_of_their_account(server: StandaloneServer) -> None:
    async with server.make_client() as client:
        with pytest.raises(ForbiddenError, match="error looking up service account"):
            await client.create(PODS, pod("nobody"))
        found = await client.create(PODS, pod("default"))
    (volume,) = found["spec"]["volumes"]
    assert volume["name"].startswith("kube-api-access-")


async def test_without_service_accounts_pods_get_none() -> None:
    async with (
        StandaloneServer(StandaloneOptions(service_accounts=False)) as server,
        server.make_client() as client,
    ):
        found = await client.create(PODS, pod("nobody"))
    assert found["spec"]["serviceAccountName"] == "nobody"
    assert "volumes" not in found["spec"]
