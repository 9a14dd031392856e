"""Keys of stored policies and bindings, for those who only ask whether there are any."""

from __future__ import annotations

__all__ = ["BINDINGS", "POLICIES"]

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
