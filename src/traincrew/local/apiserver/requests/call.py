"""A request and its options, parsed from its path, query and body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import parse_qsl, unquote

from traincrew.local.apiserver.values import causes
from traincrew.local.apiserver.values.errors import bad_request, invalid
from traincrew.local.apiserver.values.numbers import int64, is_int64

from .user import USER

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.paths import Path

    from .proposals import AdmissionAnswers
    from .rights import Rights

__all__ = [
    "Call",
    "DeleteOptions",
    "Target",
    "WriteOptions",
    "delete_options",
    "is_true",
    "parse_path",
    "split_path",
    "write_options",
]


class Target(NamedTuple):
    """The resource that a path below ``/api/v1`` or ``/apis/GROUP/VERSION`` names."""

    group: str
    version: str
    plural: str
    namespace: str | None
    name: str | None
    subresource: str | None


def parse_path(segments: list[str]) -> Target | None:
    """Split a resource path; return None for other paths (discovery, health and the like)."""
    if len(segments) >= 3 and segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    elif len(segments) >= 4 and segments[0] == "apis":
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return None
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 1:
        # namespaces/x/status and namespaces/x/finalize belong to the namespace itself.
        if len(rest) == 2 or (len(rest) == 3 and rest[2] in {"status", "finalize"}):
            return Target(group, version, *_pad(["namespaces", *rest[1:]], None))
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    return Target(group, version, *_pad(rest, namespace))


def _pad(rest: list[str], namespace: str | None) -> tuple[str, str | None, str | None, str | None]:
    name = rest[1] if len(rest) > 1 else None
    subresource = rest[2] if len(rest) > 2 else None
    return rest[0], namespace, name, subresource


def is_true(text: str) -> bool:
    """Return the value of a boolean parameter, as lenient as upstream: an empty one is true."""
    return text.lower() not in {"false", "0", "f"}


class Call:
    """One API request, as the verbs see it.

    Attributes:
        method: upper case.
        target: the resource that the path names.
        user_agent: as sent.
        accept: the Accept header.
        content_type: media type of the body, lower case, without parameters.
        body: the raw body.
        admission: answers of the admission webhooks so far; None where no webhook may match.
        user: who sent it.
        rights: what the user may do; None for the administrator, who may do everything.
        warnings: texts for the Warning headers of the response.
    """

    __slots__ = (
        "_query",
        "accept",
        "admission",
        "body",
        "content_type",
        "method",
        "raw_query",
        "rights",
        "target",
        "user",
        "user_agent",
        "warnings",
    )

    def __init__(
        self,
        method: str,
        target: Target,
        *,
        query: str = "",
        user_agent: str = "",
        accept: str = "",
        content_type: str = "",
        body: bytes = b"",
        user: Document = USER,
        rights: Rights | None = None,
    ) -> None:
        self.method = method
        self.target = target
        self.raw_query = query
        self.user_agent = user_agent
        self.accept = accept
        self.content_type = content_type
        self.body = body
        self.user = user
        self.rights = rights
        self.admission: AdmissionAnswers | None = None
        self.warnings: list[str] = []
        self._query: dict[str, list[str]] | None = None

    @property
    def query(self) -> dict[str, list[str]]:
        """All values of every query parameter."""
        if self._query is None:
            parsed: dict[str, list[str]] = {}
            if self.raw_query:
                for name, value in parse_qsl(self.raw_query, keep_blank_values=True):
                    parsed.setdefault(name, []).append(value)
            self._query = parsed
        return self._query

    def text(self, name: str) -> str:
        """Return the first value of a parameter, empty when it is missing."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool | None:
        """Return a boolean parameter, parsed as leniently as upstream; None when it is missing."""
        values = self.query.get(name)
        if not values:
            return None
        return is_true(values[0])

    def number(self, name: str) -> int | None:
        """Return a parameter that is a whole number of 64 bits; None when it is missing.

        Raises:
            StatusError: 400 for any other value.
        """
        text = self.text(name)
        if not text:
            return None
        value = int64(text)
        if value is None:
            raise bad_request(
                f'invalid value "{text}" for query parameter {name}: a whole number is expected'
            )
        return value


class WriteOptions(NamedTuple):
    """Options that all writes share.

    Attributes:
        manager: field manager, which owns the written fields.
        dry_run: do everything except storing the object.
        validation: the ``fieldValidation`` level for unknown and duplicate fields.
        warnings: texts for the Warning headers of the response.
        force: take over fields from other managers (apply only).
        patched: the patched object as error messages quote it; None when the request carried the
            whole object.
        emptied: fields that were sent empty, among those where this is significant.
        dropped: paths of the empty lists and maps that were sent and are not stored.
        hidden: fields of which upstream stores more than it returns; see `decoding.after_apply`.
        admission: answers of the admission webhooks so far; None where no webhook may match.
        rights: what the user may do; None for the administrator, who may do everything.
        user: who writes, as ``userInfo``.
    """

    manager: str
    dry_run: bool
    validation: Literal["Strict", "Warn", "Ignore"]
    warnings: list[str]
    dropped: list[tuple[Path, Any]]
    force: bool | None = None
    patched: str | None = None
    emptied: frozenset[str] = frozenset()
    hidden: tuple[str, ...] = ()
    admission: AdmissionAnswers | None = None
    rights: Rights | None = None
    user: Document = USER


def _dry_run(values: list[str], faults: list[Cause]) -> bool:
    faults.extend(
        causes.not_supported("dryRun", value, ["All"]) for value in values if value != "All"
    )
    return bool(values)


def write_options(
    call: Call,
    kind: Literal["CreateOptions", "UpdateOptions", "PatchOptions"],
    *,
    apply: bool = False,
) -> WriteOptions:
    """Parse and validate the query of a create, update or patch.

    Raises:
        StatusError: 422 naming the invalid option.
    """
    query = call.query
    if not query and not apply:
        return WriteOptions(
            _manager_of(call),
            False,
            "Warn",
            call.warnings,
            [],
            admission=call.admission,
            rights=call.rights,
            user=call.user,
        )
    faults: list[Cause] = []
    dry_run = _dry_run(query.get("dryRun", []), faults)
    validation = call.text("fieldValidation") or "Warn"
    if validation not in {"Strict", "Warn", "Ignore"}:
        choices = ["Ignore", "Strict", "Warn"]
        faults.append(causes.not_supported("fieldValidation", validation, choices))
    manager = call.text("fieldManager")
    if len(manager) > 128:
        faults.append(causes.too_long("fieldManager", 128))
    elif not manager.isprintable():
        detail = "should only contain printable characters"
        faults.append(causes.invalid("fieldManager", manager, detail))
    force = call.flag("force")
    if apply and not manager:
        faults.append(causes.required("fieldManager", "is required for apply patch"))
    if force is not None and not apply:
        faults.append(causes.forbidden("force", "may not be specified for non-apply patch"))
    _refuse(kind, faults)
    if call.admission is not None:
        call.admission.dry_run = dry_run
    return WriteOptions(
        manager or _manager_of(call),
        dry_run,
        validation,  # type: ignore[arg-type]
        call.warnings,
        [],
        force,
        admission=call.admission,
        rights=call.rights,
        user=call.user,
    )


def _manager_of(call: Call) -> str:
    name = call.user_agent.split("/", 1)[0]
    if not (name.isascii() and name.isprintable()):
        name = "".join(filter(str.isprintable, name))
        name = name.encode()[:_MAX_MANAGER_BYTES].decode(errors="ignore")
    return name[:_MAX_MANAGER_BYTES] or "unknown"


_MAX_MANAGER_BYTES = 128


def _refuse(kind: str, faults: list[Cause]) -> None:
    if faults:
        raise invalid("meta.k8s.io", kind, "", faults)


class DeleteOptions(NamedTuple):
    """How an object is to be deleted.

    Attributes:
        grace_seconds: grace period; None: the object's own.
        propagation: ``Background``, ``Foreground``, ``Orphan``; None: the resource's default.
        uid: precondition: the UID of the object.
        resource_version: precondition: the resourceVersion of the object.
        dry_run: do everything except deleting the object.
    """

    grace_seconds: int | None = None
    propagation: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


_OPTION_TYPES: dict[str, tuple[type, str]] = {
    "dryRun": (list, "[]string"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "orphanDependents": (bool, "bool"),
    "preconditions": (dict, "v1.Preconditions"),
}
_JSON_NAMES = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}


def _check_option_types(options: Document) -> None:
    """Refuse options of another type, in the words of Go's JSON decoder."""
    for name, (wanted, go_type) in _OPTION_TYPES.items():
        value = options.get(name)
        items = value if isinstance(value, list) and name == "dryRun" else []
        wrong = [item for item in items if not isinstance(item, str)]
        if value is not None and not isinstance(value, wanted):
            wrong = [value]
        if wrong:
            raise bad_request(
                f"json: cannot unmarshal {_JSON_NAMES.get(type(wrong[0]), 'object')} into Go"
                f" struct field DeleteOptions.{name} of type {'string' if items else go_type}"
            )
    seconds = options.get("gracePeriodSeconds")
    if isinstance(seconds, int | float) and not is_int64(int(seconds)):
        raise bad_request(
            f"json: cannot unmarshal number {causes.show(seconds)} into Go struct field "
            "DeleteOptions.gracePeriodSeconds of type int64"
        )


def delete_options(call: Call, body: Document | None) -> DeleteOptions:
    """Parse and validate the options of a DELETE, from its body or else from its query.

    Raises:
        StatusError: 400 for a body that is not DeleteOptions, 422 naming the invalid option.
    """
    faults: list[Cause] = []
    options: Document = {}
    if body:
        if body.get("kind", "DeleteOptions") != "DeleteOptions":
            raise bad_request(
                f'the body of a DELETE must be DeleteOptions, not "{body.get("kind")}"'
            )
        _check_option_types(body)
        options = body
    else:
        if (seconds := call.number("gracePeriodSeconds")) is not None:
            options["gracePeriodSeconds"] = seconds
        if call.text("propagationPolicy"):
            options["propagationPolicy"] = call.text("propagationPolicy")
        if (orphan := call.flag("orphanDependents")) is not None:
            options["orphanDependents"] = orphan
    dry_run = options.get("dryRun") or [value for value in call.query.get("dryRun", []) if value]
    propagation = options.get("propagationPolicy")
    orphan = options.get("orphanDependents")
    if propagation is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        faults.append(causes.invalid("propagationPolicy", propagation, detail))
    elif propagation not in {None, "Background", "Foreground", "Orphan"}:
        choices = ["Background", "Foreground", "Orphan"]
        faults.append(causes.not_supported("propagationPolicy", propagation, choices))
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        detail = "must be a whole number of seconds"
        faults.append(causes.invalid("gracePeriodSeconds", grace, detail))
    preconditions = options.get("preconditions") or {}
    is_dry = _dry_run(list(dry_run), faults)
    _refuse("DeleteOptions", faults)
    if call.admission is not None:
        call.admission.dry_run = is_dry
    return DeleteOptions(
        grace,
        propagation,
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        is_dry,
    )


def split_path(raw: str) -> tuple[list[str], str]:
    """Split a raw request path into its decoded segments and the raw query."""
    path, _, query = raw.partition("?")
    segments = path.split("/")[1:] or [""]  # OPTIONS * and CONNECT have no path
    if "%" in path:
        segments = [unquote(segment) for segment in segments]
    return segments, query
