"""ResourceQuotas, enforced exactly, however many clients write at once.

The rules and messages are those of upstream's plugin ResourceQuota
(``k8s.io/apiserver/pkg/admission/plugin/resourcequota``). The usage is in the status of the quota;
a write that creates an object adds to it in the same iteration of the event loop. The controller
(`traincrew.local.controllers.quota`) initializes the status and subtracts deleted objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local import quotas
from traincrew.local.apiserver.values.errors import forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.storage import Entry, Storage
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.apiserver.values.errors import StatusError

__all__ = ["QUOTAS", "Charge", "assess"]

QUOTAS = "resourcequotas"


class Charge(NamedTuple):
    """The usage to write to a quota's status when the object is stored."""

    quota: Entry
    used: dict[str, str]


def assess(
    storage: Storage,
    resource: ResourceType,
    obj: Document,
    old: Document | None,
    now: float,
) -> list[Charge]:
    """Check an object against the quotas of its namespace.

    Args:
        storage: holds the quotas.
        resource: resource of the object.
        obj: the object, already validated.
        old: the stored object, for an update.
        now: seconds since the epoch.

    Returns:
        What to write to the quotas once nothing else can reject the object.

    Raises:
        StatusError: 403 if a quota would be exceeded.
    """
    entries = storage.scan(QUOTAS, obj["metadata"].get("namespace", ""))
    name = resource.identifier
    if not entries or not resource.namespaced or not quotas.charges(name, obj, old):
        return []

    def rejection(why: str) -> StatusError:
        return forbidden(resource.plural, resource.group, obj["metadata"]["name"], why)

    matching = [entry for entry in entries if _matches(entry, name, obj)]
    if not matching:
        return []
    for entry in matching:
        _check_status(entry, resource, obj, rejection)
    wanted = quotas.usage(name, obj, now)
    if negative := quotas.negative(wanted):
        raise rejection(f"quota usage is negative for resource(s): {','.join(negative)}")
    charges = []
    for entry in matching:
        more: quotas.Amounts = wanted
        if old is not None and _matches(entry, name, old):
            more = quotas.increase(wanted, quotas.usage(name, old, now))
        status = entry.obj["status"]
        hard, used = status["hard"], status.get("used") or {}
        requested = quotas.masked(quotas.without_zeros(more), hard)
        total = quotas.add(used, requested)
        over = quotas.exceeded(quotas.masked(total, requested), hard)
        if over:
            raise rejection(
                f"exceeded quota: {entry.key[1]}, requested: {_format(requested, over)}, "
                f"used: {_format(used, over)}, limited: {_format(hard, over)}"
            )
        if not quotas.same(total, used):
            charges.append(Charge(entry, total))
    return charges


def _matches(entry: Entry, resource: str, obj: Document) -> bool:
    quota = entry.obj
    hard = (quota.get("status") or {}).get("hard") or {}
    return quotas.quota_matches(quota.get("spec") or {}, hard, resource, obj)


def _check_status(entry: Entry, resource: ResourceType, obj: Document, rejection: Any) -> None:
    """Check that the object sets what is constrained, and that the quota's usage is known."""
    status, quota = entry.obj["status"], entry.key[1]
    names = quotas.matching_names(resource.identifier, status["hard"])
    missing_requests = resource.strategy.missing_requests
    if missing_requests is not None and (missing := missing_requests(obj, names)):
        raise rejection(f"failed quota: {quota}: {missing}")
    if unknown := [name for name in names if name not in (status.get("used") or {})]:
        listed = ",".join(sorted(names))
        assert unknown
        raise rejection(f"status unknown for quota: {quota}, resources: {listed}")


def _format(amounts: quotas.Amounts, names: Sequence[str] | Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names) if name in amounts)
