"""The QoS class of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.documents import field
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from fractions import Fraction

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["qos_class"]


def qos_class(spec: Document) -> str:
    """Return the QoS class from cpu and memory requests and limits; missing ones count as zero.

    Rules: ``pkg/apis/core/helper/qos``.
    """
    holders = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    if any(field(spec, "resources").values()):
        holders = [spec]
    totals: dict[str, dict[str, Fraction]] = {"requests": {}, "limits": {}}
    guaranteed = True
    for holder in holders:
        if not holder.get("resources"):
            guaranteed = False
            continue
        for kind, total in totals.items():
            amounts = field(holder, "resources", kind)
            given = {name: parse(amounts.get(name, "0")) for name in ("cpu", "memory")}
            # A numerator compares faster than its fraction.
            positive = {name: amount for name, amount in given.items() if amount.numerator > 0}
            for name, amount in positive.items():
                total[name] = total[name] + amount if name in total else amount
            guaranteed = guaranteed and (kind == "requests" or len(positive) == len(given))
    if not any(totals.values()):
        return "BestEffort"
    return "Guaranteed" if guaranteed and totals["requests"] == totals["limits"] else "Burstable"
