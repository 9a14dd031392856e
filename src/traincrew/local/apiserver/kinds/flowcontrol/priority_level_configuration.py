"""PriorityLevelConfigurations: stored; this server answers all requests as they come.

Rules: ``pkg/apis/flowcontrol`` of Kubernetes (``v1/defaults.go``, ``validation/validation.go``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.cells import NONE, age_of, name_of
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

from .flow_schema import EXEMPT, condition_types

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]

# As upstream's server creates it (``flowcontrol/bootstrap/default.go``).
_CATCH_ALL = {
    "type": "Limited",
    "limited": {
        "nominalConcurrencyShares": 5,
        "lendablePercent": 0,
        "limitResponse": {"type": "Reject"},
    },
}
_MAX_QUEUES = 10_000_000
# Of the hash that chooses the queues of a flow (``shufflesharding.MaxHashBits``).
_MAX_HASH_BITS = 60


def _row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a PriorityLevelConfiguration."""
    spec = field(obj, "spec")
    limited, queuing = spec.get("limited"), field(spec, "limited", "limitResponse").get("queuing")
    shares = NONE if limited is None else limited.get("nominalConcurrencyShares", 0)
    keys = ("queues", "handSize", "queueLengthLimit")
    cells = [NONE if queuing is None else queuing.get(key, 0) for key in keys]
    return [name_of(obj), spec.get("type", ""), shares, *cells, age_of(obj, now)]


def _default(obj: Document) -> None:
    spec = field(obj, "spec")
    for kind, shares in (("exempt", 0), ("limited", 30)):
        level = spec.get(kind)
        if type(level) is dict:
            for key, value in (("nominalConcurrencyShares", shares), ("lendablePercent", 0)):
                if level.get(key) is None:
                    level[key] = value
    queuing = field(spec, "limited", "limitResponse").get("queuing")
    if type(queuing) is dict:
        for key, value in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
            if not queuing.get(key):
                queuing[key] = value


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a PriorityLevelConfiguration."""
    spec = field(obj, "spec")
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    if (obj["metadata"]["name"] == EXEMPT) != (kind == "Exempt"):
        detail = "must be 'Exempt' if and only if `name` is 'exempt'"
        found.append(why.invalid("spec.type", kind, detail))
    if kind == "Exempt":
        if limited is not None:
            found.append(why.forbidden("spec.limited", "must be nil if the type is not Limited"))
        if exempt is not None:
            _shares(found, exempt, "spec.exempt")
    elif kind == "Limited":
        if exempt is not None:
            found.append(why.forbidden("spec.exempt", "must be nil if the type is Limited"))
        if limited is None:
            found.append(why.required("spec.limited", "must not be empty when type is Limited"))
        else:
            _limited(found, limited)
    elif not kind:
        found.append(why.required("spec.type"))
    else:
        found.append(why.not_supported("spec.type", kind, ("Exempt", "Limited")))
    name, detail = obj["metadata"]["name"], ""
    if name == EXEMPT and {**spec, "exempt": None} != {"type": "Exempt", "exempt": None}:
        detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
    if name == "catch-all" and spec != _CATCH_ALL:
        detail = "spec of 'catch-all' must equal the fixed value"
    if detail:
        shown = form("flowcontrol.PriorityLevelConfigurationSpec", spec)
        found.append(why.invalid("spec", shown, detail))
    condition_types(found, obj)


def _shares(found: list[Cause], level: Document, path: str) -> None:
    shares, percent = level.get("nominalConcurrencyShares", 0), level.get("lendablePercent", 0)
    if shares < 0:
        detail = "must be a non-negative integer"
        found.append(why.invalid(f"{path}.nominalConcurrencyShares", shares, detail))
    if not 0 <= percent <= 100:
        detail = "must be between 0 and 100, inclusive"
        found.append(why.invalid(f"{path}.lendablePercent", percent, detail))


def _limited(found: list[Cause], level: Document) -> None:
    _shares(found, level, "spec.limited")
    borrowed = level.get("borrowingLimitPercent") or 0
    if borrowed < 0:
        detail = "if specified, must be a non-negative integer"
        found.append(why.invalid("spec.limited.borrowingLimitPercent", borrowed, detail))
    response, path = field(level, "limitResponse"), "spec.limited.limitResponse"
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind == "Reject":
        if queuing is not None:
            detail = "must be nil if limited.limitResponse.type is not Limited"
            found.append(why.forbidden(f"{path}.queuing", detail))
    elif kind == "Queue":
        if queuing is None:
            detail = "must not be empty if limited.limitResponse.type is Limited"
            found.append(why.required(f"{path}.queuing", detail))
        else:
            _queuing(found, queuing, f"{path}.queuing")
    elif not kind:
        found.append(why.required(f"{path}.type"))
    else:
        found.append(why.not_supported(f"{path}.type", kind, ("Queue", "Reject")))


def _queuing(found: list[Cause], queuing: Document, path: str) -> None:
    length, queues, hand = (queuing[key] for key in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        found.append(why.invalid(f"{path}.queueLengthLimit", length, "must be positive"))
    if queues <= 0:
        found.append(why.invalid(f"{path}.queues", queues, "must be positive"))
    elif queues > _MAX_QUEUES:
        detail = f"must not be greater than {_MAX_QUEUES}"
        found.append(why.invalid(f"{path}.queues", queues, detail))
    detail = ""
    if hand <= 0:
        detail = "must be positive"
    elif hand > queues:
        detail = f"should not be greater than queues ({queues})"
    elif math.ceil(math.log2(queues) * hand) > _MAX_HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be "
            f"greater than {_MAX_HASH_BITS}"
        )
    if detail:
        found.append(why.invalid(f"{path}.handSize", hand, detail))


STRATEGY = Strategy(
    columns="Name Type NominalConcurrencyShares Queues HandSize QueueLengthLimit Age",
    row=_row,
    default=_default,
    validate=_validate,
)
