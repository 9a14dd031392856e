"""Rules for probes and lifecycle hooks (``pkg/apis/core/validation/validation.go``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.shared.fields import one_of, port_number, port_or_name
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["PROBES", "lifecycle", "probes"]

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def _handler(found: list[Cause], document: Document, path: str, grace: int | None) -> None:
    kinds = [kind for kind in _HANDLERS if kind in document]
    if not kinds:
        found.append(why.required(path, "must specify a handler type"))
        return
    _action(found, kinds[0], field(document, kinds[0]), f"{path}.{kinds[0]}", grace)
    found.extend(
        why.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")
        for kind in kinds[1:]
    )


def _action(found: list[Cause], kind: str, action: Document, here: str, grace: int | None) -> None:
    if kind == "exec":
        if not action.get("command"):
            found.append(why.required(f"{here}.command"))
    elif kind == "httpGet":
        port_or_name(found, f"{here}.port", action.get("port"))
        one_of(found, action, "scheme", here, ("HTTP", "HTTPS"))
    elif kind == "tcpSocket":
        port_or_name(found, f"{here}.port", action.get("port"))
    elif kind == "grpc":
        port_number(found, f"{here}.port", action.get("port", 0))
    else:
        seconds = action.get("seconds", 0)
        if grace is not None and not 0 <= seconds <= grace:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            found.append(why.invalid(here, seconds, detail))


PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def probes(found: list[Cause], container: Document, path: str, grace: int | None) -> None:
    """Validate the probes of a container.

    Args:
        found: extended in place.
        container: the container.
        path: of the container.
        grace: the pod's terminationGracePeriodSeconds.
    """
    for name in PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        here = f"{path}.{name}"
        _handler(found, probe, here, grace)
        for key in (
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ):
            value = probe.get(key, 0)
            if value < 0:
                detail = "must be greater than or equal to 0"
                found.append(why.invalid(f"{here}.{key}", value, detail))
        own_grace = probe.get("terminationGracePeriodSeconds")
        if own_grace is not None:
            place = f"{here}.terminationGracePeriodSeconds"
            if name == "readinessProbe":
                found.append(why.invalid(place, own_grace, "must not be set for readinessProbes"))
            elif own_grace <= 0:
                found.append(why.invalid(place, own_grace, "must be greater than 0"))
        if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            place = f"{here}.successThreshold"
            found.append(why.invalid(place, probe["successThreshold"], "must be 1"))


def lifecycle(found: list[Cause], container: Document, path: str, grace: int | None) -> None:
    """Validate the lifecycle hooks of a container; for the arguments see `probes`."""
    hooks = field(container, "lifecycle")
    for name in ("postStart", "preStop"):
        if name in hooks:
            _handler(found, hooks[name], f"{path}.lifecycle.{name}", grace)
