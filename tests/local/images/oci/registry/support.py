"""A registry in the test process that misbehaves on request, and a store that keeps bytes."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from local.images.oci.packing import Layer, config_of, manifest_of
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.model import Descriptor, ImageConfig, StoredImage
from traincrew.local.images.oci.registry import (
    Keyring,
    Progress,
    PullSecret,
    RegistrySettings,
    pull,
    user_keyring,
)
from traincrew.local.images.oci.registry.connection import Patience
from traincrew.local.images.reference import parse_reference

if TYPE_CHECKING:
    import ssl

OCI = "application/vnd.oci.image."
MANIFEST, INDEX = f"{OCI}manifest.v1+json", f"{OCI}index.v1+json"
QUICK = Patience(connect=5, idle=5, document=10, attempts=3, base=0.001, cap=0.002, longest_wait=2)
Hook = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """Serves images, and logs what it is asked."""

    def __init__(self) -> None:
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.blobs: dict[str, bytes] = {}
        self.log: list[tuple[str, str, str | None]] = []
        """Method, path and Authorization."""
        self.hook: Hook | None = None
        self.users: dict[str, str] = {}
        self.scheme = ""
        """``basic`` or ``bearer``; empty for a registry that is open to all."""
        self.realm = ""
        self.identity_tokens: set[str] = set()
        self.valid_tokens: set[str] = set()
        self.token_answer: dict[str, Any] = {}
        self.tokens_given = 0
        self.host = ""

    def add_packed(self, name: str, *layers: Layer) -> str:
        """Store an image whose layers can be unpacked; return the digest of its manifest."""
        config = config_of(*layers)
        for blob in (config, *(layer.blob for layer in layers)):
            self.blobs[digest(blob)] = blob
        data = manifest_of(config, *layers)
        self.manifests[name] = self.manifests[digest(data)] = (MANIFEST, data)
        return digest(data)

    def add(
        self,
        name: str,
        *contents: bytes,
        architecture: str = "amd64",
        media_type: str = f"{OCI}layer.v1.tar",
    ) -> str:
        """Store an image of some layers; return the digest of its manifest."""
        config = json.dumps(
            {
                "os": "linux",
                "architecture": architecture,
                "config": {"Cmd": ["/run"]},
                "rootfs": {"type": "layers", "diff_ids": [digest(one) for one in contents]},
            }
        ).encode()
        for blob in (config, *contents):
            self.blobs[digest(blob)] = blob
        layers = [_described(media_type, one) for one in contents]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _described(f"{OCI}config.v1+json", config),
            "layers": layers,
        }
        return self.add_manifest(name, manifest, MANIFEST)

    def add_index(self, name: str, members: dict[str, str]) -> str:
        """Store an index of manifests, by architecture."""
        entries = [
            {
                **_described(*self.manifests[one]),
                "platform": {"os": "linux", "architecture": architecture},
            }
            for architecture, one in members.items()
        ]
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        return self.add_manifest(name, index, INDEX)

    def add_manifest(self, name: str, manifest: Any, media_type: str) -> str:
        data = json.dumps(manifest).encode()
        self.manifests[name] = self.manifests[digest(data)] = (media_type, data)
        return digest(data)

    def paths(self, method: str = "GET") -> list[str]:
        """Return what it was asked for, without the version of the protocol."""
        return [path.removeprefix("/v2/") for used, path, _ in self.log if used == method]

    def sent(self) -> set[str | None]:
        """Return all Authorization headers that it has seen."""
        return {header for _, _, header in self.log}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.log.append((request.method, request.path, request.headers.get("Authorization")))
        if self.hook is not None and (answer := await self.hook(request)) is not None:
            return answer
        if request.path == "/token":
            return await self._token(request)
        if (refusal := self._refusal(request)) is not None:
            return refusal
        what, _, reference = request.path.removeprefix("/v2/").rpartition("/")
        if what.endswith("/manifests") and reference in self.manifests:
            media_type, data = self.manifests[reference]
            headers = {"Docker-Content-Digest": digest(data)}
            return web.Response(body=data, content_type=media_type, headers=headers)
        if what.endswith("/blobs") and reference in self.blobs:
            return self._blob(request, self.blobs[reference])
        if request.path == "/v2/":
            return web.json_response({})
        return refused(404, "MANIFEST_UNKNOWN", "manifest unknown")

    def _blob(self, request: web.Request, data: bytes) -> web.Response:
        asked = request.headers.get("Range")
        if asked is None:
            return web.Response(body=data)
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        if start >= len(data):
            return web.Response(status=416)
        return web.Response(
            status=206,
            body=data[start:],
            headers={"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"},
        )

    def _refusal(self, request: web.Request) -> web.Response | None:
        header = request.headers.get("Authorization", "")
        if not self.scheme:
            return None
        if self.scheme == "basic":
            if self._user(header) is not None:
                return None
            challenge = 'Basic realm="test"'
        else:
            if header.removeprefix("Bearer ") in self.valid_tokens:
                return None
            realm = self.realm or f"http://{self.host}/token"
            challenge = f'Bearer realm="{realm}",service="test",scope="repository:x:pull"'
        return refused(
            401, "UNAUTHORIZED", "authentication required", {"WWW-Authenticate": challenge}
        )

    def _user(self, header: str) -> str | None:
        if not header.startswith("Basic "):
            return None
        user, _, password = base64.b64decode(header[6:]).decode().partition(":")
        return user if self.users.get(user) == password else None

    async def _token(self, request: web.Request) -> web.Response:
        header = request.headers.get("Authorization")
        if request.method == "POST":
            form = await request.post()
            if form.get("refresh_token") not in self.identity_tokens:
                return web.json_response({"error": "invalid_grant"}, status=400)
        elif header is not None and self._user(header) is None:
            return refused(401, "UNAUTHORIZED", "incorrect username or password")
        self.tokens_given += 1
        token = f"t{self.tokens_given}"
        if header is not None or request.method == "POST" or not self.users:
            self.valid_tokens.add(token)
        return web.json_response(self.token_answer or {"token": token, "expires_in": 300})


def refused(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> web.Response:
    error = {"errors": [{"code": code, "message": message}]}
    return web.json_response(error, status=status, headers=headers)


def _described(media_type: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest(data), "size": len(data)}


@asynccontextmanager
async def serving(
    registry: Registry, context: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """Serve a registry; yield host and port."""
    app = web.Application(client_max_size=2**20)
    app.router.add_route("*", "/{path:.*}", registry.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    registry.host = f"{host}:{port}"
    try:
        yield registry.host
    finally:
        await runner.cleanup()


@contextmanager
def serving_in_thread(registry: Registry) -> Iterator[str]:
    """Serve a registry to a test that has no event loop, or starts programs."""
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with serving(registry):
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        assert ready.wait(10)
        yield registry.host
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


@asynccontextmanager
async def tunnelling(log: list[str]) -> AsyncIterator[str]:
    """Serve a proxy for TLS, which leads everybody to the loopback port they ask for.

    Args:
        log: Gets the head of each request.
    """

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        log.append(head)
        port = int(head.split()[1].rpartition(":")[2])
        there = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


class Store:
    """A `LayerStore` whose layers are the bytes of blobs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.layers: dict[str, bytes] = {}
        self.images: dict[str, StoredImage] = {}
        self.locked: list[str] = []
        self.refuse: Callable[[str], None] | None = None
        self._locks: dict[str, threading.Lock] = {}

    def has_layer(self, diff_id: str) -> bool:
        return diff_id in self.layers

    @contextmanager
    def lock(self, digest: str) -> Iterator[None]:
        with self._locks.setdefault(digest, threading.Lock()):
            self.locked.append(digest)
            yield

    def partial(self, digest: str) -> Path:
        return self.directory / digest.replace(":", "-")

    def add_layer(
        self, blob: Path, descriptor: Descriptor, diff_id: str, progress: Callable[[int], None]
    ) -> None:
        data = blob.read_bytes()
        blob.unlink()
        progress(len(data))
        if self.refuse is not None:
            self.refuse(diff_id)
        if digest(data) != descriptor.digest:
            raise ImageContentError(f"the bytes are not those of {descriptor.digest}")
        self.layers[diff_id] = data

    def add_image(
        self, names: Sequence[str], manifest: bytes, config: bytes, digest: str
    ) -> StoredImage:
        stored = StoredImage(
            id=f"sha256:{hashlib.sha256(config).hexdigest()}",
            digest=digest,
            names=tuple(names),
            config=ImageConfig(diff_ids=tuple(json.loads(config)["rootfs"]["diff_ids"])),
            layers=(),
            size=0,
            created="2026-01-01T00:00:00Z",
        )
        for name in names:
            self.images[name] = stored
        return stored

    def find(self, name: str) -> StoredImage | None:
        return self.images.get(name)

    def place(self, image: StoredImage) -> Path:
        return self.directory / image.id


def secret(auths: dict[str, Any], name: str = "default/login") -> PullSecret:
    """Return a Secret of imagePullSecrets."""
    document = json.dumps({"auths": auths}).encode()
    return PullSecret(name=name, data={".dockerconfigjson": document})


def login(user: str, password: str) -> dict[str, str]:
    """Return an entry of a file of credentials."""
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def keyring(*secrets: PullSecret) -> Keyring:
    """Return credentials of Secrets alone."""
    return user_keyring(secrets, {"HOME": "/nonexistent", "DOCKER_CONFIG": "/nonexistent"})


class Puller:
    """Pulls into one store.

    Attributes:
        reports: All reports of progress.
    """

    def __init__(self, directory: Path) -> None:
        self.store = Store(directory)
        self.reports: list[Progress] = []
        self.settings = RegistrySettings({}, Path("/etc/registries.yaml"))
        self.patience = QUICK

    async def __call__(self, image: str, credentials: Keyring | None = None) -> StoredImage:
        return await pull(
            parse_reference(image),
            self.store,
            credentials=credentials or keyring(),
            settings=self.settings,
            progress=self.reports.append,
            patience=self.patience,
            machine="x86_64",
        )
