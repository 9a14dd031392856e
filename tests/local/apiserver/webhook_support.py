"""A webhook server that answers AdmissionReviews and ConversionReviews, as a pod would run it."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from local.apiserver.support import Api
from traincrew.local import authority

Document = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
HOST = "127.0.0.1"


def allow(_: Document) -> Document:
    return {"allowed": True}


def patch(*operations: Document) -> Document:
    """Return a response that allows the request with a patch."""
    content = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": content}


@dataclass
class Hook:
    """A running webhook: the reviews it received and its responses, by path.

    `bundle` is the certificate of its CA, `leaf` its own (base64 of PEM).
    """

    port: int
    bundle: str
    leaf: str
    requests: list[Document] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    answer: Callable[[Document], Document] = allow
    before: Callable[[], Any] | None = None
    convert: Callable[[Document], Document] | None = None

    def webhook(self, name: str = "a.example.com", path: str = "/check", **more: Any) -> Document:
        """Return a webhook of a configuration that sends config maps to this server."""
        return {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {
                "caBundle": self.bundle,
                "service": {"namespace": "default", "name": "hook", "path": path},
            },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["*"],
            }],
            **more,
        }  # fmt: skip


def configuration(*webhooks: Document, mutating: bool = False, name: str = "hooks") -> Document:
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


@asynccontextmanager
async def running_hook(
    api: Api, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hook]:
    """Run a webhook behind the Service `hook` in the namespace `default`."""
    monkeypatch.setattr(authority, "SERVER_NAMES", ("hook.default.svc",))
    certificate = authority.make_certificate(directory)
    leaf = base64.b64encode(certificate.path.read_bytes()).decode()
    hook = Hook(0, base64.b64encode(certificate.authority.encode()).decode(), leaf)

    async def answer(request: web.Request) -> web.StreamResponse:
        review = await request.json()
        assert request.query["timeout"].endswith("s")
        assert "Authorization" not in request.headers
        hook.requests.append(review["request"])
        hook.paths.append(request.path)
        if hook.before is not None:
            await hook.before()
        asked = hook.answer
        if review["kind"] == "ConversionReview":
            assert hook.convert is not None
            asked = hook.convert
        response = {"uid": review["request"]["uid"], **asked(review["request"])}
        return web.json_response({
            "kind": review["kind"], "apiVersion": review["apiVersion"], "response": response
        })  # fmt: skip

    application = web.Application()
    application.router.add_post("/{rest:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, 0, ssl_context=certificate.context())
        await site.start()
        hook.port = runner.addresses[0][1]
        services = "/api/v1/namespaces/default/services"
        service = {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}}
        (await api.post(services, service)).ok(201)
        ends = {
            "metadata": {"name": "hook"},
            "subsets": [{"addresses": [{"ip": HOST}], "ports": [{"port": hook.port}]}],
        }
        (await api.post("/api/v1/namespaces/default/endpoints", ends)).ok(201)
        yield hook
    finally:
        await runner.cleanup()
        await asyncio.sleep(0)
