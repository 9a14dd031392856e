"""Compressed request bodies: decompressed only after authentication, and up to a limit."""

import asyncio
import json
import zlib

import pytest

from bombs import LIMIT, bomb, compressed, frugal, send
from local.apiserver.support import AUTHORIZATION, MAPS, Api, config_map

ENCODINGS = ["gzip", "deflate"]


@pytest.fixture(scope="module", params=ENCODINGS)
def encoding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def gibibyte(encoding: str) -> bytes:
    return bomb(encoding)


async def test_bodies_of_unauthenticated_requests_are_not_decompressed(
    api: Api, encoding: str, gibibyte: bytes
) -> None:
    with frugal():
        pending = [send(api.server.port, MAPS, gibibyte, encoding) for _ in range(8)]
        answers, ready = await asyncio.gather(asyncio.gather(*pending), api.get("/readyz"))
    assert [code for code, _ in answers] == [401] * 8
    assert ready.body == b"ok"


async def test_decompressed_bodies_have_the_limit_of_plain_ones(
    api: Api, encoding: str, gibibyte: bytes
) -> None:
    with frugal():
        pending = [
            send(api.server.port, MAPS, gibibyte, encoding, headers=AUTHORIZATION) for _ in range(4)
        ]
        answers, ready = await asyncio.gather(asyncio.gather(*pending), api.get("/readyz"))
    for code, body in answers:
        assert code == 413
        assert json.loads(body)["message"] == f"Request entity too large: limit is {LIMIT}"
    assert ready.body == b"ok"


async def test_a_compressed_body_is_decompressed_up_to_the_limit(api: Api, encoding: str) -> None:
    body = json.dumps(config_map("a", {"key": "x" * 500_000})).encode()
    padded = body + b" " * (LIMIT - len(body))
    assert (
        await send(
            api.server.port, MAPS, compressed(encoding, padded), encoding, headers=AUTHORIZATION
        )
    )[0] == 201
    over = compressed(encoding, padded + b" ")
    assert (await send(api.server.port, MAPS, over, encoding, headers=AUTHORIZATION))[0] == 413
    (await api.get(f"{MAPS}/a")).ok()


async def test_raw_deflate_streams_are_decompressed_too(api: Api) -> None:
    compressor = zlib.compressobj(wbits=-15)
    body = compressor.compress(json.dumps(config_map("a")).encode()) + compressor.flush()
    assert (await send(api.server.port, MAPS, body, "deflate", headers=AUTHORIZATION))[0] == 201


@pytest.mark.parametrize("damage", ["cut", "more", "other", "plain"])
async def test_damaged_bodies_are_bad_requests(api: Api, encoding: str, damage: str) -> None:
    plain = json.dumps(config_map("a")).encode()
    good = compressed(encoding, plain)
    body = {"cut": good[:-5], "more": good + good, "other": b"\x1f\x8b" * 40, "plain": plain}
    code, answer = await send(api.server.port, MAPS, body[damage], encoding, headers=AUTHORIZATION)
    assert code == 400
    assert "the body of the request is not" in json.loads(answer)["message"]
    (await api.get(f"{MAPS}/a")).refused(404)


@pytest.mark.parametrize(
    "name", ["br", "zstd", "compress", "gzip, gzip", "deflate, gzip", "x" * 999]
)
async def test_unknown_encodings_are_rejected(api: Api, name: str) -> None:
    code, answer = await send(api.server.port, MAPS, b"{}", name, headers=AUTHORIZATION)
    assert code == 415
    message = json.loads(answer)["message"]
    assert "unsupported Content-Encoding" in message
    assert "gzip, deflate" in message
    assert len(message) < 300
    assert (await send(api.server.port, MAPS, b"{}", name))[0] == 401
