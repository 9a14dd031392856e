"""Tokens of ServiceAccounts: for whom, how long, and as long as what they are bound to exists."""

import asyncio
import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from local.apiserver.support import DEADLINE, PODS, SECRET, Answer, Api, pod

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
API = "https://kubernetes.default.svc"


@pytest.fixture
async def account(api: Api) -> dict[str, Any]:
    (await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})).ok(201)
    return (await api.get(f"{ACCOUNTS}/robot")).ok()


async def requested(api: Api, **spec: Any) -> Answer:
    return await api.post(f"{ACCOUNTS}/robot/token", {"spec": spec})


async def issued(api: Api, **spec: Any) -> str:
    return str((await requested(api, **spec)).ok(201)["status"]["token"])


async def code(api: Api, token: str, path: str = "/version") -> int:
    return (await api.get(path, headers={"Authorization": f"Bearer {token}"})).code


async def reviewed(api: Api, token: str, *audiences: str) -> dict[str, Any]:
    spec = {"token": token, "audiences": list(audiences)}
    status: dict[str, Any] = (await api.post(REVIEWS, {"spec": spec})).ok(201)["status"]
    return status


def reference(obj: dict[str, Any], **other: Any) -> dict[str, Any]:
    metadata = obj["metadata"]
    named = {"name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": "v1", "kind": obj.get("kind", "Pod")} | named | other


# -- who has issued it


async def test_others_verify_tokens_by_the_keys_that_the_issuer_publishes(
    api: Api, account: Any
) -> None:
    """As programs with OpenID Connect do, without a TokenReview."""
    token = await issued(api, audiences=["vault"])
    head, body, signature = token.split(".")
    bearer = {"Authorization": f"Bearer {await issued(api)}"}  # every account may read both
    found = await api.get("/.well-known/openid-configuration", headers=bearer)
    issuer = found.ok()
    assert issuer["jwks_uri"] == f"https://127.0.0.1:{api.server.port}/openid/v1/jwks"
    assert issuer["id_token_signing_alg_values_supported"] == ["ES256"]
    assert found.headers["Cache-Control"] == "public, max-age=3600"
    keys = await api.get("/openid/v1/jwks", headers=bearer)
    assert keys.headers["Content-Type"] == "application/jwk-set+json"
    (key,) = keys.ok()["keys"]
    header = json.loads(decoded(head))
    assert (header["alg"], header["kid"]) == (key["alg"], key["kid"])
    assert json.loads(decoded(body))["iss"] == issuer["issuer"]
    x, y = (int.from_bytes(decoded(key[name])) for name in ("x", "y"))
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    pair = decoded(signature)
    halves = (int.from_bytes(pair[:32]), int.from_bytes(pair[32:]))
    encoded = encode_dss_signature(*halves)
    public.verify(encoded, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("part", [0, 1, 2])
async def test_a_changed_token_is_refused(api: Api, account: Any, part: int) -> None:
    token = await issued(api)
    assert await code(api, token) == 200
    parts = token.split(".")
    for changed in ("", parts[part][:-8], parts[part][:10] + "AAAA" + parts[part][14:], "é"):
        forged = [*parts[:part], changed, *parts[part + 1 :]]
        assert await code(api, ".".join(forged).encode().decode("latin-1")) == 401
    unsigned = json.dumps({"alg": "none", "typ": "JWT"}).encode()
    head = base64.urlsafe_b64encode(unsigned).decode().rstrip("=")
    assert await code(api, f"{head}.{parts[1]}.") == 401


# -- audiences


async def test_a_token_for_others_is_not_one_for_the_api(api: Api, account: Any) -> None:
    vault = await issued(api, audiences=["vault"])
    assert await code(api, vault) == 401
    assert await code(api, await issued(api, audiences=["vault", API])) == 200
    assert await reviewed(api, vault) == {
        "user": {},
        "error": f'token audiences ["vault"] is invalid for the target audiences ["{API}"]',
    }
    status = await reviewed(api, vault, "vault", "other")
    assert status["authenticated"]
    assert status["audiences"] == ["vault"]
    assert status["user"]["username"] == "system:serviceaccount:default:robot"
    assert status["user"]["uid"] == account["metadata"]["uid"]
    assert status["user"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    ]
    assert (await reviewed(api, await issued(api)))["audiences"] == [API]


# -- what a token is bound to


async def test_a_token_ends_with_its_account(api: Api, account: Any) -> None:
    token = await issued(api)
    assert await code(api, token) == 200
    (await api.delete(f"{ACCOUNTS}/robot")).ok()
    assert await code(api, token) == 401
    assert (await reviewed(api, token))["error"] == 'serviceaccounts "robot" not found'
    (await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})).ok(201)
    assert await code(api, token) == 401
    assert "does not match claim" in (await reviewed(api, token))["error"]
    assert await code(api, await issued(api)) == 200


async def bindable(api: Api, kind: str) -> tuple[str, dict[str, Any]]:
    if kind == "Pod":
        path, document = PODS, pod("p", serviceAccountName="robot")
    elif kind == "Secret":
        path, document = "/api/v1/namespaces/default/secrets", {"metadata": {"name": "p"}}
    else:
        path, document = "/api/v1/nodes", {"metadata": {"name": "p"}}
    created = (await api.post(path, document)).ok(201)
    return path, created | {"kind": kind}


@pytest.mark.parametrize("kind", ["Pod", "Secret", "Node"])
async def test_a_token_ends_with_the_object_it_is_bound_to(
    api: Api, account: Any, kind: str
) -> None:
    path, bound = await bindable(api, kind)
    token = await issued(api, boundObjectRef=reference(bound))
    assert await code(api, token) == 200
    (await api.delete(f"{path}/p")).ok()
    assert await code(api, token) == 401
    assert (await reviewed(api, token))["error"] == "service account token has been invalidated"
    _, other = await bindable(api, kind)
    assert await code(api, token) == 401
    status = (await requested(api, boundObjectRef=reference(bound))).refused(409, "Conflict")
    assert f"UID in the bound object reference ({bound['metadata']['uid']})" in status["message"]
    token = await issued(api, boundObjectRef=reference(other))
    assert await code(api, token) == 200


async def test_a_token_of_a_pod_that_ends_is_valid_for_another_minute(
    api: Api, account: Any
) -> None:
    path, bound = await bindable(api, "Pod")
    binding = {"target": {"kind": "Node", "name": "n"}}
    (await api.post(f"{PODS}/p/binding", binding)).ok(201)
    token = await issued(api, boundObjectRef=reference(bound))
    extra = (await reviewed(api, token))["user"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/node-name"] == ["n"]
    (await api.delete(f"{path}/p", gracePeriodSeconds="300")).ok()
    api.clock.now += 300 + 59
    assert await code(api, token) == 200
    api.clock.now += 2
    assert await code(api, token) == 401


@pytest.mark.parametrize(
    ("other", "expected", "message"),
    [
        ({"name": "x", "uid": ""}, 404, 'pods "x" not found'),
        ({"kind": "ConfigMap"}, 400, "cannot bind token to object of type /v1, Kind=ConfigMap"),
        (
            {"apiVersion": "apps/v1"},
            400,
            "cannot bind token to object of type apps/v1, Kind=Pod",
        ),
        ({"kind": "Node"}, 404, 'nodes "p" not found'),
    ],
)
async def test_a_token_is_never_issued_without_what_it_is_to_be_bound_to(
    api: Api, account: Any, other: dict[str, Any], expected: int, message: str
) -> None:
    _, bound = await bindable(api, "Pod")
    answer = await requested(api, boundObjectRef=reference(bound, **other))
    answer.refused(expected, message=message)


async def test_a_token_is_bound_to_pods_of_its_account_only(api: Api, account: Any) -> None:
    bound = (await api.post(PODS, pod("p"))).ok(201)
    (await requested(api, boundObjectRef=reference(bound))).refused(
        400,
        "BadRequest",
        'cannot bind token for serviceaccount "robot" to pod running with different '
        "serviceaccount name.",
    )


# -- the time


@pytest.mark.parametrize(
    ("seconds", "detail"),
    [
        (599, "may not specify a duration less than 10 minutes"),
        (0, "may not specify a duration less than 10 minutes"),
        (-1, "may not specify a duration less than 10 minutes"),
        (2**32 + 1, "may not specify a duration larger than 2^32 seconds"),
    ],
)
async def test_durations_that_no_token_has(
    api: Api, account: Any, seconds: int, detail: str
) -> None:
    status = (await requested(api, expirationSeconds=seconds)).refused(422, "Invalid")
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": f"Invalid value: {seconds}: {detail}",
            "field": "spec.expirationSeconds",
        }
    ]


@pytest.mark.parametrize("seconds", [True, "600", 10**30, 600.5, []])
async def test_durations_that_are_no_number(api: Api, account: Any, seconds: Any) -> None:
    (await requested(api, expirationSeconds=seconds)).refused(400, "BadRequest")


async def test_the_longest_and_the_usual_duration(api: Api, account: Any) -> None:
    longest = (await requested(api, expirationSeconds=2**32)).ok(201)
    assert longest["status"]["expirationTimestamp"].startswith("2163-")
    usual = (await requested(api)).ok(201)
    assert usual["spec"] == {"audiences": [API], "expirationSeconds": 3600, "boundObjectRef": None}
    token = usual["status"]["token"]
    api.clock.now += 3601
    assert await code(api, token) == 401
    assert (await reviewed(api, token))["error"] == "service account token has expired"


# -- other fields


@pytest.mark.parametrize(
    ("metadata", "expected", "text"),
    [
        ({"name": "other"}, 422, "must match the service account name if specified"),
        ({"namespace": "other"}, 422, "must match the service account namespace if specified"),
        ({"uid": "other"}, 409, "the UID in the token request (other) does not match"),
    ],
)
async def test_a_request_for_another_account(
    api: Api, account: Any, metadata: dict[str, str], expected: int, text: str
) -> None:
    answer = await api.post(f"{ACCOUNTS}/robot/token", {"metadata": metadata})
    assert text in answer.refused(expected)["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"spec": []},
        {"spec": {"audiences": "vault"}},
        {"spec": {"audiences": [1]}},
        {"spec": {"boundObjectRef": "p"}},
        {"spec": {"boundObjectRef": {"name": 1}}},
        {"metadata": "x"},
    ],
)
async def test_requests_of_another_type(api: Api, account: Any, body: Any) -> None:
    (await api.post(f"{ACCOUNTS}/robot/token", body)).refused(400, "BadRequest")


@pytest.mark.parametrize("spec", [[], {"token": 1}, {"token": "x", "audiences": "x"}, {}, None])
async def test_reviews_of_another_type(api: Api, spec: Any) -> None:
    (await api.post(REVIEWS, {"spec": spec})).refused(400, "BadRequest")


# -- who it is


async def test_reviews_name_the_user_of_a_token(api: Api, account: Any) -> None:
    token = await issued(api)
    headers = {"Authorization": f"Bearer {token}"}
    own = (await api.post(SELF, {}, headers=headers)).ok(201)["status"]["userInfo"]
    assert own["username"] == "system:serviceaccount:default:robot"
    assert own == (await reviewed(api, token))["user"]
    admin = (await api.post(SELF, {})).ok(201)["status"]["userInfo"]
    assert (admin["username"], "system:masters" in admin["groups"]) == ("traincrew:admin", True)
    assert (await reviewed(api, SECRET))["user"]["username"] == "traincrew:admin"
    assert (await reviewed(api, SECRET, "vault"))["user"] == {}


@pytest.mark.parametrize("token", ["x", "a.b.c", "é", "\ufffd." * 3, "a" * 100_000])
async def test_other_tokens_are_nobodys(api: Api, account: Any, token: str) -> None:
    assert await reviewed(api, token) == {"user": {}, "error": "invalid bearer token"}
    body = json.dumps({"spec": {"token": token}}).encode()
    (await api.post(REVIEWS, body)).ok(201)


@pytest.mark.parametrize("token", [b"\xff", b"\xff.\xff", b"a.\xff", b"\xc3\xa9.\xc3\xa9"])
async def test_bytes_that_are_no_token_are_unauthorized(api: Api, token: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    head = b"GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    writer.write(head + b"Authorization: Bearer " + token + b"\r\n\r\n")
    async with asyncio.timeout(DEADLINE):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 401 ")
