"""From a path and a method to the verb that serves it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from . import answers, discovery, reviews, version
from .errors import StatusError, bad_request, method_not_allowed, no_such_path, success
from .lists import Page, check_revision, list_page, parse_revision
from .negotiation import JSON, READABLE, decode_body, negotiate
from .openapi_documents import OpenApiDocuments
from .openapi_v2 import SwaggerDocument
from .proxying import proxy_path, serve_proxy
from .representation import Representation
from .requests import Call, parse_path, write_options
from .subresources import SUBRESOURCES
from .watching import serve_watch

if TYPE_CHECKING:
    from aiohttp import web

    from .definitions import Definitions
    from .registry import ResourceType
    from .storage import Entry
    from .streams import NodeBackend
    from .tokens import Tokens
    from .verbs import Verbs
    from .watch import WatchHub

__all__ = ["Dispatcher"]

Document = dict[str, Any]

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Dispatcher:
    """Answers requests that have been let in.

    Attributes:
        verbs: create, read, update, patch, delete.
        hub: of the watches.
        definitions: of custom resources.
        openapi: the published schemas.
        swagger: the same in the older form.
        tokens: of service accounts.
        node: where logs and commands are; None before a node has registered.
    """

    def __init__(
        self, verbs: Verbs, hub: WatchHub, definitions: Definitions, tokens: Tokens
    ) -> None:
        self.verbs = verbs
        self.hub = hub
        self.definitions = definitions
        self.tokens = tokens
        self.openapi = OpenApiDocuments(verbs.registry)
        self.swagger = SwaggerDocument(verbs.registry)
        self.node: NodeBackend | None = None

    async def respond(
        self,
        request: web.BaseRequest,
        segments: list[str],
        query: str,
        *,
        prefix: str,
        stream_limit: int | None = None,
    ) -> web.StreamResponse:
        """Answer one request.

        Args:
            request: as it came.
            segments: of the path, after the secret.
            query: raw.
            prefix: path all others are below.
            stream_limit: bytes after which a watch or a log is cut, for tests of clients.

        Raises:
            StatusError: the refusal to send.
            StorageError: the write could not be kept.
        """
        if (proxied := proxy_path(segments)) is not None:
            return await serve_proxy(self.verbs, proxied, request, query, prefix)
        headers = request.headers
        target = parse_path(segments)
        method = request.method
        if target is None:
            if segments == ["openapi", "v2"] and method in {"GET", "HEAD"}:
                return self._swagger(headers.get("Accept", ""), headers.get("If-None-Match", ""))
            return self._document(method, segments, headers.get("Accept", ""), prefix)
        registry = self.verbs.registry
        resource = registry.find(target.group, target.version, target.plural)
        if resource is None or (target.namespace is not None and not resource.namespaced):
            raise no_such_path()
        body = await request.read() if request.body_exists else b""
        call = Call(
            method,
            target,
            query=query,
            user_agent=headers.get("User-Agent", ""),
            accept=headers.get("Accept", ""),
            content_type=_media_type(headers.get("Content-Type")),
            body=body,
        )
        if body and call.content_type not in READABLE:
            # Also keeps out what a web page can send without being asked: forms and plain text.
            decode_body(body, call.content_type)
        if (
            resource.namespaced
            and target.namespace is None
            and not (method == "GET" and target.name is None)
        ):
            raise _without_namespace(call, resource)
        try:
            if target.subresource is not None:
                return await self._subresource(request, call, resource, stream_limit)
            return await self._resource(request, call, resource, stream_limit)
        except StatusError as error:
            # What a reader of the body has noticed is told all the same.
            response = answers.refusal(error)
            answers.add_warnings(response, call.warnings)
            return response

    async def _settled(self) -> None:
        """Wait until what has been seen or written is safe."""
        if committed := self.verbs.storage.committed:
            await asyncio.shield(committed)

    # -- resources

    async def _resource(
        self,
        request: web.BaseRequest,
        call: Call,
        resource: ResourceType,
        stream_limit: int | None,
    ) -> web.StreamResponse:
        name, method = call.target.name, call.method
        if method == "GET" and (name is None or call.flag("watch")):
            if call.flag("watch"):
                self._allow(resource, "watch")
                return await serve_watch(
                    request, call, resource, self.hub, clock=self.verbs.clock, limit=stream_limit
                )
            self._allow(resource, "list")
            return await self._list(call, resource)
        if method == "POST" and name is None:
            return await self._create(call, resource)
        if method == "DELETE" and name is None:
            self._allow(resource, "deletecollection")
            return await self._delete_collection(call, resource)
        verb = _VERBS.get(method, method)
        if name is None or method == "POST":
            raise method_not_allowed(resource.plural, resource.group, verb)
        self._allow(resource, verb)
        if method == "GET":
            return await self.read(call, resource)
        if method == "DELETE":
            return await self._delete(call, resource)
        return await self.write(call, resource)

    def _allow(self, resource: ResourceType, verb: str) -> None:
        if verb not in resource.verbs:
            raise method_not_allowed(resource.plural, resource.group, verb)

    def representation(self, call: Call, resource: ResourceType) -> Representation:
        """How the answer to a request looks."""
        form = negotiate(call.accept)
        return Representation(resource, form, call.text("includeObject"), self.verbs.clock)

    async def show(
        self, call: Call, resource: ResourceType, entry: Entry, *, code: int = 200
    ) -> web.Response:
        """Answer with an object, once it is safe."""
        representation = self.representation(call, resource)
        body = representation.single(entry)
        await self._settled()
        response = answers.payload(body, code=code, content_type=representation.content_type)
        answers.add_warnings(response, call.warnings)
        return response

    async def tell(self, call: Call, content: Document, *, code: int = 200) -> web.Response:
        """Answer with a document, once what it speaks of is safe."""
        negotiate(call.accept, shapes=False)
        await self._settled()
        response = answers.document(content, code=code)
        answers.add_warnings(response, call.warnings)
        return response

    async def read(self, call: Call, resource: ResourceType) -> web.Response:
        """GET of an object."""
        target = call.target
        check_revision(parse_revision(call.text("resourceVersion")), self.verbs.storage.revision)
        assert target.name is not None
        entry = self.verbs.find(resource, target.namespace, target.name)
        return await self.show(call, resource, entry)

    async def write(self, call: Call, resource: ResourceType) -> web.Response:
        """PUT or PATCH of an object or of its status."""
        self.representation(call, resource)  # refuse before anything is done
        if call.method == "PATCH":
            written = self.verbs.patch(call, resource)
        else:
            written = self.verbs.replace(call, resource, *decode_body(call.body, call.content_type))
        return await self.show(call, resource, written.entry, code=201 if written.created else 200)

    async def _create(self, call: Call, resource: ResourceType) -> web.StreamResponse:
        self._allow(resource, "create")
        document, faults = decode_body(call.body, call.content_type)
        if "get" not in resource.verbs:
            return await self._ask(call, resource, document)
        self.representation(call, resource)
        self.definitions.refuse_terminating(resource)
        entry = self.verbs.create(call, resource, document, faults)
        return await self.show(call, resource, entry, code=201)

    async def _ask(
        self, call: Call, resource: ResourceType, document: Document
    ) -> web.StreamResponse:
        """POST to a resource that is a question or an order rather than an object."""
        write_options(call, "CreateOptions")
        negotiate(call.accept, shapes=False)
        if resource.kind == "Binding":
            metadata = document.get("metadata")
            name = metadata.get("name") if isinstance(metadata, dict) else None
            if not name:
                raise bad_request("a Binding needs the name of a pod: metadata.name")
            pods = self.verbs.registry.find("", "v1", "pods")
            assert pods is not None
            call.target = call.target._replace(plural="pods", name=name, subresource="binding")
            return await SUBRESOURCES["pods", "binding"](self, call, pods)
        content = reviews.answer(resource, document, self.tokens)
        return await self.tell(call, content, code=201)

    async def _list(self, call: Call, resource: ResourceType) -> web.Response:
        representation = self.representation(call, resource)
        page = list_page(self.verbs.storage, call, resource)
        body = representation.page(page)
        await self._settled()
        response = answers.payload(body, content_type=representation.content_type)
        answers.add_warnings(response, call.warnings)
        return response

    def _options_body(self, call: Call) -> Document | None:
        return decode_body(call.body, call.content_type)[0] if call.body else None

    async def _delete(self, call: Call, resource: ResourceType) -> web.Response:
        deleted = self.verbs.delete(call, resource, self._options_body(call))
        entry = deleted.entry
        if deleted.gone and not resource.returns_deleted:
            uid = entry.obj["metadata"]["uid"]
            status = success(resource.group, resource.plural, entry.key[1], uid)
            return await self.tell(call, status)
        return await self.show(call, resource, entry)

    async def _delete_collection(self, call: Call, resource: ResourceType) -> web.Response:
        representation = self.representation(call, resource)
        entries = self.verbs.delete_collection(call, resource, self._options_body(call))
        page = Page(entries, self.verbs.storage.revision, "", None)
        body = representation.page(page)
        await self._settled()
        return answers.payload(body, content_type=representation.content_type)

    # -- subresources

    async def _subresource(
        self,
        request: web.BaseRequest,
        call: Call,
        resource: ResourceType,
        stream_limit: int | None,
    ) -> web.StreamResponse:
        target = call.target
        subresource = resource.subresource_index.get(target.subresource or "")
        if subresource is None:
            raise no_such_path()
        verb = _VERBS.get(call.method, call.method)
        if verb not in subresource.verbs:
            name = f"{resource.plural}/{subresource.name}"
            raise method_not_allowed(name, resource.group, verb)
        serve = SUBRESOURCES.get((resource.identifier, subresource.name))
        if serve is None:
            serve = SUBRESOURCES["", subresource.name]
        return await serve(self, call, resource, request, stream_limit)

    # -- documents

    def _document(self, method: str, segments: list[str], accept: str, prefix: str) -> web.Response:
        if method not in {"GET", "HEAD"}:
            raise no_such_path()
        if segments and not segments[-1]:
            segments = segments[:-1]  # /version/ is /version
        match segments:
            case ["version"]:
                return answers.document(version.document())
            case ["readyz" | "healthz" | "livez", *_]:
                return answers.text("ok")
            case ["api"] | ["apis"]:
                return self._root(segments[0], accept)
            case ["api", "v1"]:
                found = discovery.resource_list(self.verbs.registry, "", "v1")
            case ["apis", name]:
                found = discovery.group(self.verbs.registry, name)
            case ["apis", name, each]:
                found = discovery.resource_list(self.verbs.registry, name, each)
            case ["openapi", "v3"]:
                found = self.openapi.index(prefix)
            case ["openapi", "v3", "api", each]:
                return self._schema("", each)
            case ["openapi", "v3", "apis", name, each]:
                return self._schema(name, each)
            case _:
                found = None
        if found is None:
            raise no_such_path()
        return answers.document(found)

    def _root(self, root: str, accept: str) -> web.Response:
        registry = self.verbs.registry
        if wanted := discovery.wanted_aggregation(accept):
            kind = f"application/json;g=apidiscovery.k8s.io;v={wanted};as=APIGroupDiscoveryList"
            content = discovery.aggregated(registry, wanted, core=root == "api")
            return answers.document(content, content_type=kind)
        if root == "apis":
            return answers.document(discovery.group_list(registry))
        return answers.document(
            {
                "kind": "APIVersions",
                "apiVersion": "v1",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            }
        )

    def _schema(self, group: str, each: str) -> web.Response:
        body = self.openapi.document(group, each)
        if body is None:
            raise no_such_path()
        return answers.payload(body)

    def _swagger(self, accept: str, known: str) -> web.Response:
        """The OpenAPI v2 document, unless the client has it already."""
        negotiate(accept, shapes=False)
        body, tag = self.swagger.get()
        response = answers.payload(b"", code=304) if tag in known else answers.payload(body)
        response.headers["ETag"] = tag
        return response


def _without_namespace(call: Call, resource: ResourceType) -> StatusError:
    """Why a path that leaves the namespace out cannot be served."""
    if call.method == "DELETE" and call.target.name is None:
        return method_not_allowed(resource.plural, resource.group, "deletecollection")
    return bad_request(f"{resource.plural} live in a namespace: the path has to name one")


def _media_type(header: str | None) -> str:
    """What a body is. Some clients do not say (the Python one, Go when it scales): JSON then.

    What a web page can send without asking first always has a type of its own, or comes with the
    browser's headers, which are refused before.
    """
    return JSON if header is None else header.partition(";")[0].strip().lower()
