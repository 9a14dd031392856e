"""Routing: from a method and path to the verb that serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.authorization import UserRights, is_master, request_attributes
from traincrew.local.apiserver.reads.lists import Page, list_page
from traincrew.local.apiserver.requests import Call, Target, parse_path, write_options
from traincrew.local.apiserver.requests.negotiation import (
    APPLY,
    READABLE,
    YAML,
    decode_body,
    negotiate,
)
from traincrew.local.apiserver.requests.user import USER
from traincrew.local.apiserver.values.errors import (
    StatusError,
    bad_request,
    forbidden,
    method_not_allowed,
    no_such_path,
    success,
)
from traincrew.local.apiserver.webhooks import Converter, Webhooks

from . import answers, reviews
from .bodies import as_text, media_type, prepared, read_body
from .documents.serving import Documents
from .impersonation import asks_for_another_user, impersonated
from .measured import serve_measured
from .proxying import proxy_path, serve_proxy
from .responder import Responder
from .subresources import SUBRESOURCES
from .watching import serve_watch

if TYPE_CHECKING:
    from aiohttp import web

    from traincrew.local.apiserver.authorization import Authorizer
    from traincrew.local.apiserver.reads.watch import WatchHub
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.storage import Entry
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.writes.definitions import Definitions
    from traincrew.local.apiserver.writes.verbs import Verbs

    from .documents.metrics import RequestMetrics
    from .proxying import ProxyPath
    from .tokens import Tokens
    from .users import Users

__all__ = ["Dispatcher"]

# Commands in pods and connections to them: to open one is to create something.
_CONNECTIONS = {"attach", "exec", "portforward"}

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Dispatcher:
    """Routes authenticated requests.

    Attributes:
        verbs: create, read, update, patch, delete.
        hub: distributes changes to watches.
        definitions: the controller of CustomResourceDefinitions.
        responder: sends responses; calls webhooks, holds the node backend.
    """

    def __init__(
        self,
        verbs: Verbs,
        hub: WatchHub,
        definitions: Definitions,
        tokens: Tokens,
        *,
        users: Users,
        authorizer: Authorizer,
        metrics: RequestMetrics,
    ) -> None:
        self.verbs = verbs
        self.hub = hub
        self.definitions = definitions
        self._users = users
        self._authorizer = authorizer
        self._documents = Documents(verbs.registry, tokens, metrics)
        webhooks = Webhooks(verbs.storage, verbs.registry, authorizer)
        self.responder = Responder(verbs, webhooks, Converter(verbs.storage), tokens)

    async def respond(
        self,
        request: web.BaseRequest,
        user: Document,
        segments: list[str],
        query: str,
        *,
        stream_limit: int | None = None,
    ) -> web.StreamResponse:
        """Serve one request.

        Args:
            request: the HTTP request.
            user: who sent it.
            segments: segments of the path.
            query: the raw query.
            stream_limit: bytes after which a watch or a log is cut, for tests of clients.

        Raises:
            StatusError: the error to send.
            StorageError: the write could not be committed.
        """
        headers = request.headers
        rights = None
        if user is not USER or asks_for_another_user(headers):
            user = impersonated(headers, user, self._authorizer) or user
            rights = self._authorize(request.method, user, segments, query)
        if (proxied := proxy_path(segments)) is not None:
            await self._review_proxy(proxied, user, query)
            return await serve_proxy(self.verbs, proxied, request, query)
        target = parse_path(segments)
        method = request.method
        if target is None:
            return await self._documents.respond(method, segments, headers)
        registry = self.verbs.registry
        resource = registry.find(target.group, target.version, target.plural)
        if resource is None or (target.namespace is not None and not resource.namespaced):
            raise no_such_path()
        body = await read_body(request)
        call = Call(
            method,
            target,
            query=query,
            user_agent=as_text(headers.get("User-Agent", "")),
            accept=headers.get("Accept", ""),
            content_type=media_type(headers.get("Content-Type")),
            body=body,
            user=user,
            rights=rights,
        )
        if call.content_type in {YAML, APPLY}:
            call.body = await prepared(body, may_be_json=call.content_type == APPLY)
        if body and call.content_type not in READABLE:
            # Also rejects what a web page can send without a CORS preflight: forms and plain text.
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
            # Warnings from decoding the body are sent with an error, too.
            response = answers.failure(error)
            answers.add_warnings(response, call.warnings)
            return response

    def _authorize(
        self, method: str, user: Document, segments: list[str], query: str
    ) -> UserRights | None:
        """Check that a user may send a request; return the rights that its writes need to check.

        Raises:
            StatusError: 403.
        """
        if is_master(user):
            return None
        attributes = request_attributes(method, segments, query)
        self._authorizer.require(user, attributes)
        if (
            attributes.verb == "get"
            and (attributes.group, attributes.resource) == ("", "pods")
            and attributes.subresource in _CONNECTIONS
        ):
            # As upstream since 1.35: websockets start with a GET, but do what a POST does.
            decision = self._authorizer.authorize(user, attributes._replace(verb="create"))
            if not decision.allowed:
                raise forbidden("pods", "", attributes.name, decision.reason)
        return UserRights(self._authorizer, user, attributes)

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
                    request, call, resource, self.responder, self.hub, limit=stream_limit
                )
            self._allow(resource, "list")
            if resource.measures:
                return await serve_measured(self.responder, call, resource)
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
            if resource.measures:
                return await serve_measured(self.responder, call, resource)
            return await self.responder.read(call, resource)
        if method == "DELETE":
            return await self._delete(call, resource)
        return await self.responder.write(call, resource)

    def _allow(self, resource: ResourceType, verb: str) -> None:
        if verb not in resource.verbs:
            raise method_not_allowed(resource.plural, resource.group, verb)

    async def _create(self, call: Call, resource: ResourceType) -> web.StreamResponse:
        self._allow(resource, "create")
        if "get" not in resource.verbs:
            document, _ = decode_body(call.body, call.content_type)
            return await self._create_unstored(call, resource, document)
        self.responder.representation(call, resource)

        def attempt(resource: ResourceType) -> Entry:
            self.definitions.refuse_terminating(resource)
            document, faults = decode_body(call.body, call.content_type)
            return self.verbs.create(call, resource, document, faults)

        entry = await self.responder.run_admitted(call, resource, attempt)
        return await self.responder.send_object(call, resource, entry, code=201)

    async def _create_unstored(
        self, call: Call, resource: ResourceType, document: Document
    ) -> web.StreamResponse:
        """Handle a POST to a resource that is not stored: a review or a Binding."""
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
            return await SUBRESOURCES["binding"](self.responder, call, pods)
        content = reviews.answer(
            resource, document, call, users=self._users, authorizer=self._authorizer
        )
        return await self.responder.send_document(call, content, code=201)

    async def _list(self, call: Call, resource: ResourceType) -> web.Response:
        storage = self.verbs.storage
        return await self.responder.send_page(
            call, resource, lambda bound: list_page(storage, call, bound)
        )

    def _options_body(self, call: Call) -> Document | None:
        return decode_body(call.body, call.content_type)[0] if call.body else None

    async def _delete(self, call: Call, resource: ResourceType) -> web.Response:
        deleted = await self.responder.run_admitted(
            call, resource, lambda found: self.verbs.delete(call, found, self._options_body(call))
        )
        entry = deleted.entry
        if deleted.gone and not resource.returns_deleted:
            uid = entry.obj["metadata"]["uid"]
            status = success(resource.group, resource.plural, entry.key[1], uid)
            return await self.responder.send_document(call, status)
        return await self.responder.send_object(call, resource, entry)

    async def _delete_collection(self, call: Call, resource: ResourceType) -> web.Response:
        self.responder.representation(call, resource)  # may be 406, which has to come first
        entries = await self.responder.run_admitted(
            call,
            resource,
            lambda found: self.verbs.delete_collection(call, found, self._options_body(call)),
        )
        page = Page(entries, self.verbs.storage.revision, "", None)
        return await self.responder.send_page(call, resource, lambda _: page)

    # -- subresources

    async def _subresource(
        self,
        request: web.BaseRequest,
        call: Call,
        resource: ResourceType,
        stream_limit: int | None,
    ) -> web.StreamResponse:
        subresource = resource.subresource_index.get(call.target.subresource or "")
        if subresource is None:
            raise no_such_path()
        verb = _VERBS.get(call.method, call.method)
        if verb not in subresource.verbs:
            name = f"{resource.plural}/{subresource.name}"
            raise method_not_allowed(name, resource.group, verb)
        await self.responder.webhooks.review_connect(call, resource)
        serve = SUBRESOURCES[subresource.name]
        return await serve(self.responder, call, resource, request, stream_limit)

    async def _review_proxy(self, proxied: ProxyPath, user: Document, query: str) -> None:
        target = Target("", "v1", proxied.plural, proxied.namespace, proxied.name, "proxy")
        resource = self.verbs.registry.find("", "v1", proxied.plural)
        assert resource is not None
        call = Call("GET", target, query=query, user=user)
        await self.responder.webhooks.review_connect(call, resource)


def _without_namespace(call: Call, resource: ResourceType) -> StatusError:
    """Return the error for a path that lacks the namespace."""
    if call.method == "DELETE" and call.target.name is None:
        return method_not_allowed(resource.plural, resource.group, "deletecollection")
    return bad_request(f"{resource.plural} live in a namespace: the path has to name one")
