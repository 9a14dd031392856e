"""HTTPS server of reports: whoever reports has to prove to be a pod of the very job.

Answers: 200 with the report; 401 without a valid token; 403 for a token of another job; 404 and 405
for what is not served; 413 for a body over the limit; 422 for one that is no report; 429 for too
many; 503 if the token could not be reviewed. Errors are ``Status`` objects, as upstream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web
from msgspec import Struct

from traincrew.engine.clock import SYSTEM_CLOCK, Clock
from traincrew.engine.controller import Request
from traincrew.engine.serving.http import HttpServer
from traincrew.engine.serving.limits import Limits
from traincrew.operator.progress.limits import RateLimit
from traincrew.operator.progress.positions import TooManyReportsError
from traincrew.operator.progress.protocol import MAX_BODY, InvalidReportError, parse, parse_rank
from traincrew.operator.progress.tokens import (
    CACHE_SECONDS,
    RANK_CACHE_SECONDS,
    Reviewer,
    ReviewError,
    claimed,
)
from traincrew.plan.shared.reporting import audience

if TYPE_CHECKING:
    import ssl

    from traincrew.api.meta import CustomObject
    from traincrew.engine.client import Client
    from traincrew.operator.progress.reports import Reports, Target

REPORTS_PER_SECOND, REPORTS_AT_ONCE = 2.0, 10
"""Reports of one job. Its status is written once a second at most."""
POSITIONS_PER_SECOND, POSITIONS_AT_ONCE = 30.0, 300
"""Positions of ranks in one pod."""
LIMITS = Limits("progress", connections=512, share=1 / 8, least=0.25, body=MAX_BODY)
_RETRY_SECONDS = 5

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


class _RefusedError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Path(Struct, frozen=True):
    """The parts of ``/apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/status[/ranks]``."""

    target: Target
    request: Request
    ranks: bool


class _Sender(Struct, frozen=True):
    """A job, and its pod that reports."""

    job: CustomObject
    pod: str
    uid: str


class ProgressServer:
    """Receives the reports of training programs.

    Args:
        client: Reviews tokens.
        reports: Keeps the reports.
        clock: Source of time.
    """

    def __init__(self, client: Client, reports: Reports, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._reports = reports
        self._clock = clock
        self._reviewer = Reviewer(client, clock)
        self._limit = RateLimit(clock, rate=REPORTS_PER_SECOND, burst=REPORTS_AT_ONCE)
        self._rank_limit = RateLimit(clock, rate=POSITIONS_PER_SECOND, burst=POSITIONS_AT_ONCE)
        self._server: HttpServer | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Start to listen, and return the port.

        Raises:
            OSError: The address cannot be used.
        """
        server = HttpServer(LIMITS, self._handle)
        chosen = await server.listen(host, port, context)
        self._server = server
        return chosen

    async def stop(self) -> None:
        """Stop listening."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return web.Response(body=await self._receive(request), content_type="application/json")
        except _RefusedError as error:
            return _refusal(error, request)

    async def _receive(self, request: web.BaseRequest) -> bytes:
        path = self._path(request)
        if request.method != "POST":
            raise _RefusedError(405, "send reports by POST")
        sender = await self._sender(path, request)
        if path.ranks:
            return await self._receive_rank(path, sender, request)
        if not self._limit.allows((path.target.resource, path.request)):
            raise _RefusedError(
                429,
                f"a job may report {REPORTS_PER_SECOND:g} times a second: report from rank 0 alone",
            )
        body = await _body(request)
        try:
            progress = parse(body, self._clock.now())
        except InvalidReportError as error:
            raise _RefusedError(422, str(error)) from error
        if progress is not None:
            self._reports.put(path.target, path.request, sender.job, progress)
        return body

    async def _receive_rank(self, path: _Path, sender: _Sender, request: web.BaseRequest) -> bytes:
        if not self._rank_limit.allows(sender.uid):
            text = f"the ranks of a pod may report {POSITIONS_PER_SECOND:g} times a second"
            raise _RefusedError(429, text)
        body = await _body(request)
        target, of_job, job = path.target, path.request, sender.job
        try:
            report, pod = parse_rank(body), (sender.pod, sender.uid)
            self._reports.put_rank(target, of_job, job, report, pod=pod, now=self._clock.now())
        except InvalidReportError as error:
            raise _RefusedError(422, str(error)) from error
        except TooManyReportsError as error:
            raise _RefusedError(429, str(error)) from error
        return body

    def _path(self, request: web.BaseRequest) -> _Path:
        match request.rel_url.path.split("/"):
            case ["", "apis", group, version, "namespaces", namespace, plural, name, *rest]:
                target = self._reports.target(group, version, plural)
                if target is not None and rest in (["status"], ["status", "ranks"]):
                    return _Path(target, Request(namespace, name), "ranks" in rest)
        raise _RefusedError(404, "nothing is reported here")

    async def _sender(self, path: _Path, request: web.BaseRequest) -> _Sender:
        """Return the job and the pod, if the request comes from one of the pods of the job."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not (token := token.strip()):
            raise _RefusedError(401, "a bearer token is needed: that of the pod")
        resource, (namespace, name) = path.target.resource, path.request
        wanted = audience(resource.api_version, resource.plural, namespace or "", name)
        claim = claimed(token, wanted, self._clock.now().timestamp())
        if claim is None:
            raise _RefusedError(401, f"the token is invalid, has expired, or is not for {wanted}")
        job = path.target.find(path.request)
        pod = path.target.pod(job, claim.uid) if job is not None else None
        if job is None or pod is None or claim.namespace != namespace:
            raise _RefusedError(403, f"the token is bound to no pod of {resource.kind} {name}")
        try:
            seconds = RANK_CACHE_SECONDS if path.ranks else CACHE_SECONDS
            identity = await self._reviewer.pod(token, wanted, seconds)
        except ReviewError as error:
            raise _RefusedError(503, f"the token could not be reviewed: {error}") from error
        if identity is None:
            raise _RefusedError(401, "the API server does not accept the token")
        if identity != claim:
            raise _RefusedError(403, f"the token is bound to no pod of {resource.kind} {name}")
        return _Sender(job, pod, claim.uid)


async def _body(request: web.BaseRequest) -> bytes:
    """Read the body, if it is not too long."""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise _RefusedError(422, "send the report without a Content-Encoding")
    refused = _RefusedError(413, f"a report has at most {MAX_BODY} bytes")
    if (request.content_length or 0) > MAX_BODY:
        raise refused
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            raise refused
    return bytes(body)


def _refusal(error: _RefusedError, request: web.BaseRequest) -> web.Response:
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": error.message,
        "reason": _REASONS[error.code],
        "code": error.code,
    }
    headers = {}
    if error.code in {429, 503}:
        headers["Retry-After"] = str(_RETRY_SECONDS)
    elif error.code == 405:
        headers["Allow"] = "POST"
    elif error.code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    response = web.Response(
        status=error.code,
        body=msgspec.json.encode(status),
        content_type="application/json",
        headers=headers,
    )
    if request.body_exists:
        response.force_close()  # what was not read of the body is no request
    return response
