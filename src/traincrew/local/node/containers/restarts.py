"""Restart policy and back-off of containers. Pure.

Upstream: `kubecontainer.ShouldContainerBeRestarted`, and the back-off of `doBackOff`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["BackOff", "restart_policy", "restarts_for", "should_restart"]

Document = Mapping[str, Any]

_FIRST_DELAY = 10.0
_LONGEST_DELAY = 300.0
# A container that ran this long has recovered: its next failure counts as the first.
_RECOVERY_SECONDS = 600.0


def restart_policy(role: str, policy: str) -> str:
    """Return the restart policy of a container, by its role and the pod's policy."""
    if role == "ephemeral":
        return "Never"
    return "OnFailure" if role == "init" and policy == "Always" else policy


def should_restart(policy: str, exit_code: int, *, sidecar: bool = False) -> bool:
    """Return whether a terminated container is restarted.

    Args:
        policy: What `restart_policy` returned.
        exit_code: Of the ended instance.
        sidecar: Whether it is an init container with `restartPolicy: Always`.
    """
    if sidecar or policy == "Always":
        return True
    return policy == "OnFailure" and exit_code != 0


def restarts_for(container: Document, before: Document) -> bool:
    """Return whether a resize of a container restarts it, by its ``resizePolicy``.

    Args:
        container: Of the pod's spec, with the new resources.
        before: The resources that it has had.
    """
    resources = container.get("resources") or {}
    return any(
        policy.get("restartPolicy") == "RestartContainer"
        and any(
            (resources.get(kind) or {}).get(policy.get("resourceName"))
            != (before.get(kind) or {}).get(policy.get("resourceName"))
            for kind in ("requests", "limits")
        )
        for policy in container.get("resizePolicy") or ()
    )


class BackOff:
    """The delay before the next attempt: 10 s, doubled up to 300 s."""

    def __init__(self, *, immediate: bool, failures: int = 0) -> None:
        """Create a back-off.

        Args:
            immediate: The first retry does not wait (for containers, not for image pulls).
            failures: Attempts that failed before, kept across restarts of the node.
        """
        self._immediate_retries = 1 if immediate else 0
        self._failures = failures
        self.current = 0.0
        """The last delay."""

    def after(self, ran: float = 0.0) -> float:
        """Return the seconds to wait after an attempt has ended.

        Args:
            ran: Duration of the attempt, in seconds.
        """
        if ran >= _RECOVERY_SECONDS:
            self._failures = 0
        self._failures += 1
        steps = self._failures - self._immediate_retries - 1
        delay = min(_FIRST_DELAY * 2.0 ** min(steps, 30), _LONGEST_DELAY)
        self.current = 0.0 if steps < 0 else delay
        return self.current
