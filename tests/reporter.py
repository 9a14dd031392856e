"""What a training program in a pod does to report its progress, with what the pod gives it."""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from traincrew.engine.resources import SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from harness import Cluster

SERVER, CA, TOKEN = (f"KUBEFLOW_TRAINER_SERVER_{end}" for end in ("URL", "CA_CERT", "TOKEN"))


class Reporter:
    """Does what a training program in a pod does, with what the pod gives it."""

    def __init__(self, cluster: Cluster, pod: dict[str, Any]) -> None:
        self.cluster = cluster
        self.pod = pod
        (volume,) = [v for v in pod["spec"]["volumes"] if v["name"] == "kubeflow-trainer-token"]
        token, certificate = volume["projected"]["sources"]
        self.audience = token["serviceAccountToken"]["audience"]
        (item,) = certificate["downwardAPI"]["items"]
        assert item["fieldRef"]["fieldPath"] == "metadata.annotations['traincrew.dev/progress-ca']"
        self.certificate = pod["metadata"]["annotations"]["traincrew.dev/progress-ca"]
        containers = [
            each
            for each in pod["spec"]["containers"]
            if any(mount["name"] == volume["name"] for mount in each.get("volumeMounts", []))
        ]
        (container,) = containers
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == volume["name"]]
        variables = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        assert variables[CA] == f"{mount['mountPath']}/{item['path']}"
        assert variables[TOKEN] == f"{mount['mountPath']}/{token['serviceAccountToken']['path']}"
        self.url = variables[SERVER]
        self.connect_to = ""
        """Address of the server, where its name is not known."""

    async def token(self, audience: str | None = None, bound: dict[str, Any] | None = None) -> str:
        """Return a token of the pod."""
        name, uid = (self.pod["metadata"][key] for key in ("name", "uid"))
        reference = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
        spec = {
            "audiences": [audience or self.audience],
            "expirationSeconds": 3600,
            "boundObjectRef": reference if bound is None else bound or None,
        }
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {},
            "spec": spec,
        }
        account = self.pod["spec"].get("serviceAccountName", "default")
        answer = await self.cluster.client.create(
            SERVICE_ACCOUNTS,
            request,
            self.pod["metadata"]["namespace"],
            name=account,
            subresource="token",
        )
        text: str = answer["status"]["token"]
        return text

    async def post(
        self, body: bytes, token: str | None, *, url: str = "", method: str = "POST", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Send a report; return status code and answer."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        context = ssl.create_default_context(cadata=self.certificate)
        target = URL(url or self.url)
        name = target.host
        if self.connect_to:
            target = target.with_host(self.connect_to)
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, target, data=body, headers=headers, ssl=context, server_hostname=name
            ) as response,
        ):
            return response.status, json.loads(await response.read())

    async def report(self, **status: Any) -> tuple[int, dict[str, Any]]:
        """Report with the token of the pod."""
        body = json.dumps({"trainerStatus": status}).encode()
        return await self.post(body, await self.token())
