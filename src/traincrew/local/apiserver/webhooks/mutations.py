"""What one MutatingAdmissionPolicy makes of an object.

Semantics and messages: ``k8s.io/apiserver/pkg/admission/plugin/policy/mutating`` (``patch``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.apply.merge import merge
from traincrew.local.apiserver.cel.admission import Evaluation
from traincrew.local.apiserver.cel.operators import type_name
from traincrew.local.apiserver.kinds.admissionregistration.expressions import mutation_source
from traincrew.local.apiserver.patch import FailedTestError, PatchError, json_patch
from traincrew.local.apiserver.schema.node import ANY
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import items
from traincrew.local.apiserver.values.limits import MAX_VALUES

from .decisions import ExpressionError, FailedError, PolicyEvaluation, Share, run_program
from .describing import identity_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.kinds.admissionregistration.expressions import Expressions
    from traincrew.local.apiserver.schema.node import SchemaNode
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["MutationError", "mutated"]

_MAX_BYTES = 3 * 1024 * 1024
"""Bytes of text in what an expression returns; as for a request, which may say as much."""


class MutationError(Exception):
    """A mutation cannot be applied; the message says why."""


def mutated(
    spec: Document,
    expressions: Expressions,
    values: dict[str, Any],
    node: SchemaNode,
    budget: list[float],
) -> tuple[Document, list[str]]:
    """Apply the mutations of a policy in turn.

    Args:
        spec: of the policy.
        expressions: of the policy.
        values: of the variables; ``object`` is the object to change.
        node: schema of the object.
        budget: of the request.

    Returns:
        The object, and why mutations could not be applied.
    """
    document: Document = values["object"]
    try:
        if not PolicyEvaluation(spec, expressions, values, budget).matches():
            return document, []
    except FailedError as error:
        return document, [str(error)]
    faults = []
    mutations = zip(items(spec, "mutations"), expressions.mutations, strict=True)
    for mutation, program in mutations:
        try:
            with Share(budget) as share:
                variables = values | {"object": document}
                evaluation = Evaluation(variables, expressions.variables, share)
                result = run_program(evaluation, program, mutation_source(mutation))
            _check_result(result)
            if mutation["patchType"] == "JSONPatch":
                document = _patched(document, result)
            else:
                document = _merged(node, document, result)
        except (ExpressionError, FailedError, MutationError) as error:
            faults.append(str(error))
    return document, faults


def _check_result(value: Any) -> None:
    """Refuse a result that is no JSON, or too large: the same part may be in it many times.

    Raises:
        MutationError: it cannot be used.
    """
    values, size, waiting = 0, 0, [value]
    while waiting:
        each = waiting.pop()
        values += 1
        if type(each) is str:
            size += len(each)
        elif type(each) is dict:
            if not all(type(key) is str for key in each):
                raise MutationError("keys of maps must be strings")
            size += sum(map(len, each))
            waiting += each.values()
        elif type(each) is list:
            waiting += each
        elif not isinstance(each, int | float | None):
            text = f"values of type {type_name(each)} have to be converted to strings"
            raise MutationError(text)
        if values + len(waiting) > MAX_VALUES or size > _MAX_BYTES:
            text = f"more than {MAX_VALUES} values or {_MAX_BYTES} bytes"
            raise MutationError(f"the result of the expression is too large: {text}")


def _patched(document: Document, operations: Any) -> Document:
    """Apply a JSON patch; one whose test fails changes nothing."""
    if type(operations) is not list or not all(type(each) is dict for each in operations):
        raise MutationError("the expression does not return operations of a JSON patch")
    try:
        result = json_patch(document, clone(operations))
    except FailedTestError:
        return document
    except (PatchError, AttributeError, LookupError, RecursionError, TypeError) as error:
        raise MutationError(f"JSON Patch: {error}") from None
    return _same_object(document, result, "JSON Patch")


def _merged(node: SchemaNode, document: Document, configuration: Any) -> Document:
    """Merge an apply configuration, as server-side apply would."""
    head = {key: document[key] for key in ("apiVersion", "kind")}
    patch = {**clone(configuration), **head}
    unknown: list[str] = []
    atomic: list[str] = []
    for path, declared in _refused(node, patch, ""):
        (atomic if declared else unknown).append(path)
    what = "error applying patch"
    if unknown:
        text = f"failed to convert patch object to typed object: {unknown[0]}"
        raise MutationError(f"{what}: {text}: field not declared in schema")
    if atomic:
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
        raise MutationError(f"{what}: invalid ApplyConfiguration: {text}")
    return _same_object(document, merge(node, document, patch), what)


def _same_object(before: Document, after: Any, what: str) -> Document:
    if fault := identity_fault(before, after):
        raise MutationError(f"{what}: it {fault}")
    return dict(after)


def _refused(node: SchemaNode, value: Any, path: str) -> Iterator[tuple[str, bool]]:
    """Yield the paths that a configuration may not have, and whether the schema has them."""
    if type(value) is dict:
        if path and node.leaf and node.type == "object":
            yield path, True
        for key, item in value.items():
            child = node.fields.get(key) or node.values or (ANY if node.preserve else None)
            if child is None:
                yield f"{path}.{key}", False
            else:
                yield from _refused(child, item, f"{path}.{key}")
    elif type(value) is list:
        if not node.associative:
            yield path, True
        elif node.items is not None:
            for index, item in enumerate(value):
                yield from _refused(node.items, item, f"{path}[{index}]")
