"""The expressions of admission policies: their variables, and how they are compiled and evaluated.

Variables, types and messages: ``k8s.io/apiserver/pkg/admission/plugin/cel`` (``compile.go``,
``composition.go`` and ``activation.go``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .celtypes import DYN, Type, of_schema
from .compiler import compile_expression
from .messages import JSON_PATCH, OBJECT
from .operators import CelError, CostExceededError
from .parts import LazyFields
from .program import PER_CALL_LIMIT, CompilationError, Program
from .values import convert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "OBJECT",
    "OUT_OF_BUDGET",
    "PATCHES",
    "CelError",
    "CompilationError",
    "CostExceededError",
    "Evaluation",
    "Program",
    "Scope",
    "namespace_value",
    "request_value",
]

PATCHES = f"list({JSON_PATCH})"
"""The type of the operations of a JSON patch."""

OUT_OF_BUDGET = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)

_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_TIME = {"type": "string", "format": "date-time"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _map(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": of}


_KIND = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
_ANY = {"x-kubernetes-int-or-string": True}  # what `of_schema` takes for values of any type
_REQUEST = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object(username=_TEXT, uid=_TEXT, groups=_TEXTS, extra=_map(_TEXTS)),
    dryRun={"type": "boolean"},
    options=_ANY,
)
_CONDITION = _object(
    status=_TEXT, type=_TEXT, lastTransitionTime=_TIME, message=_TEXT, reason=_TEXT
)
_NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_map(_TEXT),
        annotations=_map(_TEXT),
        UID=_TEXT,
        creationTimestamp=_TIME,
        deletionGracePeriodSeconds={"type": "integer"},
        deletionTimestamp=_TIME,
        generation={"type": "integer"},
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(conditions={"type": "array", "items": _CONDITION}, phase=_TEXT),
)


def _declared(schema: dict[str, Any]) -> Type:
    found = of_schema(schema)
    assert found is not None
    return found


_REQUEST_TYPE, _NAMESPACE_TYPE = _declared(_REQUEST), _declared(_NAMESPACE)
_AUTHORIZER = Type("kubernetes.authorization.Authorizer")
_RESOURCE_CHECK = Type("kubernetes.authorization.ResourceCheck")


def request_value(request: Document) -> Any:
    """Return an admission request as expressions see it: without the objects and the UID."""
    shown = {key: item for key, item in request.items() if key in _REQUEST["properties"]}
    return convert(_REQUEST, shown, [math.inf])


def namespace_value(namespace: Document | None) -> Any:
    """Return a Namespace as expressions see it."""
    return None if namespace is None else convert(_NAMESPACE, namespace, [math.inf])


class _Composed:
    """The variables that are declared so far."""

    def __init__(self, types: dict[str, Type]) -> None:
        self._types = types

    def field_type(self, name: str) -> Type | None:
        """Return the type of a variable; None if there is none."""
        return self._types.get(name)


class Scope:
    """The variables that the expressions of one policy may use.

    Args:
        params: whether there are parameters.
        object_type: type of ``object`` and ``oldObject``, where it is known.
        params_type: type of ``params``, likewise.
    """

    def __init__(self, *, params: bool, object_type: Type = DYN, params_type: Type = DYN) -> None:
        self._types: dict[str, Type] = {
            "object": object_type,
            "oldObject": object_type,
            "request": _REQUEST_TYPE,
            "namespaceObject": _NAMESPACE_TYPE,
        }
        if params:
            self._types["params"] = params_type
        self._composed: dict[str, Type] = {}
        self._has_variables = False

    def compile(
        self, source: str, *returned: str, authorizer: bool = True, messages: bool = False
    ) -> Program:
        """Compile an expression.

        Args:
            source: its text.
            returned: the types that its value may have; any, if there are none.
            authorizer: whether it may use ``authorizer``.
            messages: whether it may create the messages of mutations.

        Raises:
            CompilationError: it does not compile, or its value has another type; in upstream's
                words.
        """
        types = dict(self._types)
        if authorizer:
            types |= {
                "authorizer": _AUTHORIZER,
                "authorizer.requestResource": _RESOURCE_CHECK,
            }
        if self._has_variables:
            types["variables"] = Type("object", size=1, fields=_Composed(self._composed))
        try:
            program = compile_expression(source, types, messages=messages)
        except CompilationError as error:
            raise CompilationError(f"compilation failed: {error}") from None
        kind = "null_type" if program.kind.name == "null_type" else str(program.kind)
        # An empty list, as in ``x ? [JSONPatch{}] : []``, has items of no type here.
        empty = kind == "list(dyn)" and PATCHES in returned
        if returned and kind not in returned and not empty:
            wanted = (
                f"must evaluate to {returned[0]}"
                if len(returned) == 1
                else f"must evaluate to one of [{' '.join(returned)}]"
            )
            raise CompilationError(f"{wanted} but got {kind}")
        return program

    def declare(self, name: str, source: str) -> Program:
        """Compile a variable, which later expressions may use.

        Raises:
            CompilationError: it does not compile; then it may have any type.
        """
        self._has_variables = True
        try:
            program = self.compile(source)
        except CompilationError:
            self._composed[name] = DYN
            raise
        self._composed[name] = program.kind
        return program


class Evaluation:
    """Evaluates expressions of one policy on one request, within a budget.

    Args:
        values: of the variables of `Scope`, without ``variables``.
        variables: their programs, or why they do not compile; evaluated when they are first used.
        budget: what the evaluation may cost, as the only item; shared by evaluations.
    """

    def __init__(
        self,
        values: dict[str, Any],
        variables: Mapping[str, Program | CompilationError],
        budget: list[float],
    ) -> None:
        self._budget = budget
        self._programs = variables
        self._values = values | {"variables": LazyFields(self._variable, variables)}

    def _variable(self, name: str, left: float) -> tuple[Any, float]:
        program = self._programs[name]
        if isinstance(program, CompilationError):
            raise CelError(f'composited variable "{name}" fails to compile: {program}')
        try:
            return program.run(self._values, left)
        except CelError as error:
            raise CelError(f'composited variable "{name}" fails to evaluate: {error}') from None

    def run(self, program: Program) -> Any:
        """Evaluate an expression.

        Raises:
            CelError: it cannot be evaluated on these values.
            CostExceededError: the budget is spent.
        """
        limit = min(self._budget[0], PER_CALL_LIMIT)
        try:
            value, cost = program.run(self._values, limit)
        except CelError as error:
            self._budget[0] -= error.cost + 5
            raise
        except CostExceededError:
            self._budget[0] = 0
            raise
        self._budget[0] -= cost + 5
        return value
