"""What is fetched, in which order, and what is left when it cannot be had."""

import asyncio
import json

import pytest
from aiohttp import web

from local.images.oci.registry.support import (
    INDEX,
    MANIFEST,
    Puller,
    Registry,
    digest,
    keyring,
    refused,
    serving,
)
from traincrew.local.images.errors import ImagePullError
from traincrew.local.images.oci.registry import RegistrySettings, resolve
from traincrew.local.images.oci.registry.connection import Patience
from traincrew.local.images.oci.registry.settings import HostSettings, Mirror
from traincrew.local.images.reference import parse_reference

BIG = bytes(range(256)) * 20_000


async def test_an_image_is_stored_under_its_name(registry: Registry, puller: Puller) -> None:
    found = registry.add("1", b"one", b"two")
    stored = await puller(f"{registry.host}/team/train:1")
    assert stored.digest == found
    assert stored.names == (f"{registry.host}/team/train:1",)
    assert set(puller.store.layers.values()) == {b"one", b"two"}
    assert registry.sent() == {None}


async def test_progress_tells_each_layer(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one", BIG)
    await puller(f"{registry.host}/train:1")
    first, last = puller.reports[0], puller.reports[-1]
    assert first.changed is None
    assert [layer.phase for layer in first.layers] == ["waiting", "waiting"]
    assert first.total == last.total == last.fetched == 3 + len(BIG)
    phases = [r.changed.phase for r in puller.reports if r.changed and r.changed.total == len(BIG)]
    assert list(dict.fromkeys(phases)) == ["fetching", "unpacking", "done"]


async def test_only_missing_layers_are_fetched(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one", b"two")
    registry.add("2", b"one", b"three", b"three")
    await puller(f"{registry.host}/train:1")
    registry.log.clear()
    await puller(f"{registry.host}/train:2")
    fetched = [
        path for path in registry.paths() if digest(b"one") in path or digest(b"three") in path
    ]
    assert fetched == [f"train/blobs/{digest(b'three')}"]


async def test_an_unchanged_tag_costs_one_request(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one")
    first = await puller(f"{registry.host}/train:1")
    registry.log.clear()
    assert await puller(f"{registry.host}/train:1") == first
    assert [path for path in registry.paths() if path] == ["train/manifests/1"]


async def test_a_stored_digest_costs_none(registry: Registry, puller: Puller) -> None:
    found = registry.add("1", b"one")
    await puller(f"{registry.host}/train@{found}")
    registry.log.clear()
    await puller(f"{registry.host}/train@{found}")
    assert registry.log == []


async def test_a_tag_that_moved_is_pulled(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one")
    await puller(f"{registry.host}/train:1")
    moved = registry.add("1", b"two")
    assert (await puller(f"{registry.host}/train:1")).digest == moved


async def test_the_digest_is_resolved_without_a_manifest(registry: Registry) -> None:
    found = registry.add("1", b"one")
    reference = parse_reference(f"{registry.host}/train:1")
    options = {"credentials": keyring(), "settings": RegistrySettings()}
    assert await resolve(reference, **options) == found  # type: ignore[arg-type]
    assert registry.paths("HEAD") == ["train/manifests/1"]
    assert "train/manifests/1" not in registry.paths()

    async def silent(request: web.Request) -> web.StreamResponse | None:
        return web.Response() if request.method == "HEAD" else None

    registry.hook = silent
    assert await resolve(reference, **options) == found  # type: ignore[arg-type]

    async def without(request: web.Request) -> web.StreamResponse | None:
        return web.Response(status=405) if request.method == "HEAD" else None

    registry.hook = without
    assert await resolve(reference, **options) == found  # type: ignore[arg-type]


async def test_the_platform_is_chosen_from_an_index(registry: Registry, puller: Puller) -> None:
    arm = registry.add("arm", b"arm", architecture="arm64")
    intel = registry.add("intel", b"intel")
    index = registry.add_index("1", {"arm64": arm, "amd64": intel})
    stored = await puller(f"{registry.host}/train:1")
    assert stored.digest == index
    assert set(puller.store.layers.values()) == {b"intel"}


async def test_another_architecture_names_those_there_are(
    registry: Registry, puller: Puller
) -> None:
    arm = registry.add("arm", b"arm", architecture="arm64")
    registry.add_index("1", {"arm64": arm})
    with pytest.raises(ImagePullError, match="not for linux/amd64: it is there for linux/arm64"):
        await puller(f"{registry.host}/train:1")
    with pytest.raises(ImagePullError, match="it is for linux/arm64") as failure:
        await puller(f"{registry.host}/train:arm")
    assert failure.value.permanent


async def test_a_wrong_manifest_is_refused(registry: Registry, puller: Puller) -> None:
    found = registry.add("1", b"one")
    registry.manifests[found] = (MANIFEST, b'{"schemaVersion": 2}')
    with pytest.raises(ImagePullError, match=f"in place of {found}"):
        await puller(f"{registry.host}/train@{found}")


@pytest.mark.parametrize("given", ["sha512:" + "a" * 128, "sha256:" + "A" * 64])
async def test_a_digest_that_nothing_checks_is_refused(
    registry: Registry, puller: Puller, given: str
) -> None:
    registry.add("1", b"one")
    registry.manifests[given] = registry.manifests["1"]
    with pytest.raises(ImagePullError, match="the digest of the image is"):
        await puller(f"{registry.host}/train@{given}")
    assert registry.log == []


async def test_a_wrong_configuration_is_refused(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one")
    config = json.loads(registry.manifests["1"][1])["config"]
    registry.blobs[config["digest"]] = b"x" * config["size"]
    with pytest.raises(ImagePullError, match="are not the blob"):
        await puller(f"{registry.host}/train:1")
    registry.blobs[config["digest"]] = b"x" * config["size"] * 2
    with pytest.raises(ImagePullError, match="answered with more than"):
        await puller(f"{registry.host}/train:1")


async def test_a_wrong_layer_is_refused(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one")
    registry.blobs[digest(b"one")] = b"two"
    with pytest.raises(ImagePullError, match="the bytes are not those of"):
        await puller(f"{registry.host}/train:1")
    assert puller.store.layers == {}
    assert puller.store.images == {}


async def test_a_manifest_of_100_mb_is_not_read(registry: Registry, puller: Puller) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse | None:
        nonlocal sent
        if "/manifests/" not in request.path:
            return None
        response = web.StreamResponse(headers={"Content-Type": MANIFEST})
        await response.prepare(request)
        for _ in range(100):
            sent += 1
            await response.write(b" " * 2**20)
        return response

    registry.hook = endless
    with pytest.raises(ImagePullError, match="answered with more than 4 MiB"):
        await puller(f"{registry.host}/train:1")
    assert sent < 30


async def test_indexes_without_end_are_refused(registry: Registry, puller: Puller) -> None:
    member = registry.add("leaf", b"one")
    for number in range(8):
        member = registry.add_index(f"level{number}", {"amd64": member})
        registry.manifests[member] = (INDEX, registry.manifests[member][1])
    with pytest.raises(ImagePullError, match="nested more than"):
        await puller(f"{registry.host}/train:level7")


@pytest.mark.parametrize(("extra", "said"), [(1, "and its manifest says"), (-1, "manifest says")])
async def test_a_blob_of_another_size_is_refused(
    registry: Registry, puller: Puller, extra: int, said: str
) -> None:
    registry.add("1", BIG)
    registry.blobs[digest(BIG)] = (BIG + b"x")[: len(BIG) + extra]
    with pytest.raises(ImagePullError, match=said):
        await puller(f"{registry.host}/train:1")


async def test_an_endless_blob_is_cut(registry: Registry, puller: Puller) -> None:
    registry.add("1", BIG)

    async def endless(request: web.Request) -> web.StreamResponse | None:
        if digest(BIG) not in request.path:
            return None
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 2**16)

    registry.hook = endless
    with pytest.raises(ImagePullError, match=f"has more than {len(BIG)} bytes of the blob"):
        await puller(f"{registry.host}/train:1")
    assert puller.store.partial(digest(BIG)).stat().st_size == 0


async def test_a_blob_that_is_cut_off_goes_on(registry: Registry, puller: Puller) -> None:
    registry.add("1", BIG)
    ranges: list[str | None] = []

    async def cutting(request: web.Request) -> web.StreamResponse | None:
        if digest(BIG) not in request.path:
            return None
        ranges.append(request.headers.get("Range"))
        start = int((ranges[-1] or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if len(ranges) > 3:
            return None
        response = web.StreamResponse(
            status=206 if start else 200,
            headers={"Content-Range": f"bytes {start}-{len(BIG) - 1}/{len(BIG)}"} if start else {},
        )
        response.content_length = len(BIG) - start
        await response.prepare(request)
        await response.write(BIG[start : start + 1_200_000])
        assert request.transport is not None
        request.transport.close()
        return response

    registry.hook = cutting
    await puller(f"{registry.host}/train:1")
    assert puller.store.layers[digest(BIG)] == BIG
    assert ranges[0] is None
    assert all(one is not None for one in ranges[1:])


async def test_what_an_earlier_pull_left_is_used(registry: Registry, puller: Puller) -> None:
    registry.add("1", BIG)
    puller.store.partial(digest(BIG)).write_bytes(BIG[:1_000_000])
    asked: list[str | None] = []

    async def listening(request: web.Request) -> None:
        if digest(BIG) in request.path:
            asked.append(request.headers.get("Range"))

    registry.hook = listening
    await puller(f"{registry.host}/train:1")
    assert asked == ["bytes=1000000-"]
    assert puller.store.layers[digest(BIG)] == BIG


@pytest.mark.parametrize("left", [b"x" * 1_000_000, b"x" * len(BIG), BIG + b"x"])
async def test_what_an_earlier_pull_left_wrong_is_fetched_again(
    registry: Registry, puller: Puller, left: bytes
) -> None:
    registry.add("1", BIG)
    puller.store.partial(digest(BIG)).write_bytes(left)
    await puller(f"{registry.host}/train:1")
    assert puller.store.layers[digest(BIG)] == BIG


async def test_a_registry_without_ranges_starts_again(registry: Registry, puller: Puller) -> None:
    registry.add("1", BIG)
    puller.store.partial(digest(BIG)).write_bytes(b"x" * 1000)

    async def whole(request: web.Request) -> web.StreamResponse | None:
        return web.Response(body=BIG) if digest(BIG) in request.path else None

    registry.hook = whole
    await puller(f"{registry.host}/train:1")
    assert puller.store.layers[digest(BIG)] == BIG


async def test_another_range_than_asked_for_is_not_used(registry: Registry, puller: Puller) -> None:
    registry.add("1", BIG)
    puller.store.partial(digest(BIG)).write_bytes(BIG[:1000])

    async def other(request: web.Request) -> web.StreamResponse | None:
        if digest(BIG) not in request.path or "Range" not in request.headers:
            return None
        span = f"bytes 500-{len(BIG) - 1}/{len(BIG)}"
        return web.Response(status=206, body=BIG[500:], headers={"Content-Range": span})

    registry.hook = other
    await puller(f"{registry.host}/train:1")
    assert puller.store.layers[digest(BIG)] == BIG


async def test_a_silent_registry_is_given_up(registry: Registry, puller: Puller) -> None:
    registry.add("1", BIG)
    puller.patience = Patience(idle=0.1, attempts=2, base=0.001, cap=0.001)
    released = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse | None:
        if digest(BIG) not in request.path:
            return None
        response = web.StreamResponse()
        response.content_length = len(BIG)
        await response.prepare(request)
        await response.write(b"x")
        await released.wait()
        return response

    registry.hook = silent
    with pytest.raises(ImagePullError, match=r"no answer from .* in time") as failure:
        await puller(f"{registry.host}/train:1")
    released.set()
    assert not failure.value.permanent


async def test_a_manifest_that_drips_is_given_up(registry: Registry, puller: Puller) -> None:
    """Each byte comes in time, and the whole never."""
    puller.patience = Patience(idle=5, document=0.2, attempts=1)

    async def dripping(request: web.Request) -> web.StreamResponse | None:
        if "/manifests/" not in request.path:
            return None
        response = web.StreamResponse(headers={"Content-Type": MANIFEST})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    registry.hook = dripping
    with pytest.raises(ImagePullError, match=r"no answer from .* in time"):
        await puller(f"{registry.host}/train:1")


async def test_a_registry_is_waited_for_as_it_asks(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one")
    began = asyncio.get_running_loop().time()

    async def busy(request: web.Request) -> web.StreamResponse | None:
        if registry.paths().count("train/manifests/1") == 1 and "/manifests/" in request.path:
            return refused(429, "TOOMANYREQUESTS", "wait", {"Retry-After": "1"})
        return None

    registry.hook = busy
    await puller(f"{registry.host}/train:1")
    assert asyncio.get_running_loop().time() - began >= 1


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_failures_of_a_moment_are_tried_again(
    registry: Registry, puller: Puller, status: int
) -> None:
    registry.add("1", b"one")
    seen: dict[str, int] = {}

    async def busy(request: web.Request) -> web.StreamResponse | None:
        seen[request.path] = seen.get(request.path, 0) + 1
        if seen[request.path] <= 2 and request.path != "/v2/":
            return refused(status, "BUSY", "wait", {"Retry-After": "0"})
        return None

    registry.hook = busy
    await puller(f"{registry.host}/train:1")
    assert puller.store.layers


@pytest.mark.parametrize(
    ("status", "said"),
    [(429, "wait, or log in"), (503, "answered 503 Service Unavailable: toomany")],
)
async def test_failures_that_stay_are_reported(
    registry: Registry, puller: Puller, status: int, said: str
) -> None:
    async def busy(_request: web.Request) -> web.StreamResponse:
        return refused(status, "TOOMANYREQUESTS", "toomany", {"Retry-After": "86400"})

    registry.hook = busy
    with pytest.raises(ImagePullError, match=said) as failure:
        await puller(f"{registry.host}/train:1")
    assert not failure.value.permanent
    assert len([path for path in registry.paths() if path]) == 1


async def test_a_missing_image_is_reported(registry: Registry, puller: Puller) -> None:
    with pytest.raises(ImagePullError, match="no such image or tag, or it may not be seen"):
        await puller(f"{registry.host}/train:1")


async def test_a_registry_that_is_not_there_is_reported(puller: Puller) -> None:
    async with serving(Registry()) as host:
        pass
    with pytest.raises(ImagePullError, match=f"cannot reach http://{host}: .*refused") as failure:
        await puller(f"{host}/train:1")
    assert "traincrew images import" in failure.value.message
    assert not failure.value.permanent


async def test_a_full_disk_is_reported(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one")

    def full(_diff_id: str) -> None:
        raise OSError(28, "No space left on device")

    puller.store.refuse = full
    with pytest.raises(ImagePullError, match="No space left on device: free some") as failure:
        await puller(f"{registry.host}/train:1")
    assert not failure.value.permanent


async def test_three_layers_at_once_are_fetched(registry: Registry, puller: Puller) -> None:
    registry.add("1", *(bytes([number]) * 10 for number in range(8)))
    running = most = 0

    async def counting(request: web.Request) -> None:
        nonlocal running, most
        if "/blobs/" in request.path:
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.02)
            running -= 1

    registry.hook = counting
    await puller(f"{registry.host}/train:1")
    assert most == 3


async def test_two_pulls_fetch_a_layer_once(registry: Registry, puller: Puller) -> None:
    registry.add("1", b"one", BIG)
    registry.add("2", BIG)
    await asyncio.gather(puller(f"{registry.host}/train:1"), puller(f"{registry.host}/train:2"))
    assert registry.paths().count(f"train/blobs/{digest(BIG)}") == 1


async def test_a_cancelled_pull_releases_its_locks(registry: Registry, puller: Puller) -> None:
    registry.add("1", BIG)
    began = asyncio.Event()
    released = asyncio.Event()

    async def slow(request: web.Request) -> None:
        if digest(BIG) in request.path:
            began.set()
            await released.wait()

    registry.hook = slow
    task = asyncio.create_task(puller(f"{registry.host}/train:1"))
    await began.wait()
    waiting = asyncio.create_task(puller(f"{registry.host}/train:1"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    released.set()
    registry.hook = None
    await waiting
    assert puller.store.layers[digest(BIG)] == BIG


async def test_a_mirror_is_asked_first(registry: Registry, puller: Puller) -> None:
    mirror = Registry()
    async with serving(mirror) as host:
        mirror.add("1", b"one")
        hosts = {registry.host: HostSettings(mirrors=(Mirror(host, "hub"),))}
        puller.settings = RegistrySettings(hosts)
        await puller(f"{registry.host}/train:1")
        assert registry.log == []
        assert "hub/train/manifests/1" in mirror.paths()
        registry.add("2", b"two")
        await puller(f"{registry.host}/train:2")
        assert "train/manifests/2" in registry.paths()


async def test_a_mirror_that_fails_midway_is_left(registry: Registry, puller: Puller) -> None:
    mirror = Registry()
    async with serving(mirror) as host:
        for one in (mirror, registry):
            one.add("1", b"one", b"two")
        del mirror.blobs[digest(b"two")]
        mirror.blobs[digest(b"one")] = b"longer than it should be"
        puller.settings = RegistrySettings({registry.host: HostSettings(mirrors=(Mirror(host),))})
        await puller(f"{registry.host}/train:1")
        assert set(puller.store.layers.values()) == {b"one", b"two"}


async def test_a_mirror_with_other_bytes_is_left(registry: Registry, puller: Puller) -> None:
    mirror = Registry()
    async with serving(mirror) as host:
        for one in (mirror, registry):
            one.add("1", b"one", b"two")
        mirror.blobs[digest(b"one")] = b"eno"
        puller.settings = RegistrySettings({registry.host: HostSettings(mirrors=(Mirror(host),))})
        await puller(f"{registry.host}/train:1")
        assert set(puller.store.layers.values()) == {b"one", b"two"}


async def test_a_mirror_is_asked_once_for_a_manifest(registry: Registry, puller: Puller) -> None:
    mirror = Registry()
    async with serving(mirror) as host:

        async def failing(_request: web.Request) -> web.StreamResponse:
            return refused(503, "UNAVAILABLE", "later")

        mirror.hook = failing
        registry.add("1", b"one")
        puller.settings = RegistrySettings({registry.host: HostSettings(mirrors=(Mirror(host),))})
        await puller(f"{registry.host}/train:1")
        assert mirror.paths().count("train/manifests/1") == 1


async def test_mirrors_are_named_when_all_fail(registry: Registry, puller: Puller) -> None:
    mirror = Registry()
    async with serving(mirror) as host:
        puller.settings = RegistrySettings({registry.host: HostSettings(mirrors=(Mirror(host),))})
        with pytest.raises(ImagePullError, match=rf"\(mirror {host}: .* answered 404"):
            await puller(f"{registry.host}/train:1")


async def test_a_document_of_something_else_is_reported(registry: Registry, puller: Puller) -> None:
    registry.add_manifest(
        "chart",
        {
            "schemaVersion": 2,
            "config": {
                "mediaType": "application/vnd.cncf.helm.config.v1+json",
                "digest": digest(b""),
                "size": 0,
            },
            "layers": [],
        },
        MANIFEST,
    )
    with pytest.raises(ImagePullError, match="it is no container image"):
        await puller(f"{registry.host}/train:chart")


async def test_html_in_place_of_a_manifest_is_reported(registry: Registry, puller: Puller) -> None:
    async def portal(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>log in</html>", content_type="text/html")

    registry.hook = portal
    with pytest.raises(ImagePullError, match="its manifest cannot be read"):
        await puller(f"{registry.host}/train:1")
