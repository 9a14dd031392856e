"""Keys of stored policies and bindings, for those who only ask whether there are any."""

from __future__ import annotations

__all__ = ["ALL", "BINDINGS", "MUTATING", "MUTATING_BINDINGS", "POLICIES"]

_GROUP = "admissionregistration.k8s.io"
POLICIES = f"validatingadmissionpolicies.{_GROUP}"
BINDINGS = f"validatingadmissionpolicybindings.{_GROUP}"
MUTATING = f"mutatingadmissionpolicies.{_GROUP}"
MUTATING_BINDINGS = f"mutatingadmissionpolicybindings.{_GROUP}"
ALL = frozenset({POLICIES, BINDINGS, MUTATING, MUTATING_BINDINGS})
