"""Security contexts: upstream's rules and messages (`suites/differential` compares them all)."""

from typing import Any

import pytest

from local.apiserver.validation.test_pod import faults, pod

RANGE = "must be between 0 and 2147483647, inclusive"
P, C = "spec.securityContext", "spec.containers[0].securityContext"

POD: list[tuple[dict[str, Any], str, str]] = [
    ({"runAsUser": -1}, f"{P}.runAsUser", f"Invalid value: -1: {RANGE}"),
    ({"runAsGroup": 2**31}, f"{P}.runAsGroup", f"Invalid value: 2147483648: {RANGE}"),
    ({"fsGroup": -1}, f"{P}.fsGroup", f"Invalid value: -1: {RANGE}"),
    ({"supplementalGroups": [0, -5]}, f"{P}.supplementalGroups[1]", f"Invalid value: -5: {RANGE}"),
    (
        {"fsGroupChangePolicy": "Never"},
        f"{P}.fsGroupChangePolicy",
        'Unsupported value: "Never": supported values: "Always", "OnRootMismatch"',
    ),
    (
        {"supplementalGroupsPolicy": "Loose"},
        f"{P}.supplementalGroupsPolicy",
        'Unsupported value: "Loose": supported values: "Merge", "Strict"',
    ),
    (
        {"sysctls": [{"name": "kernel.sem", "value": "1"}, {"name": "kernel.sem", "value": "2"}]},
        f"{P}.sysctls[1].name",
        'Duplicate value: "kernel.sem"',
    ),
    (
        {"appArmorProfile": {"type": "Localhost"}},
        f"{P}.appArmorProfile.localhostProfile",
        "Required value: must be set when AppArmor type is Localhost",
    ),
    (
        {"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}},
        f"{P}.seccompProfile.localhostProfile",
        (
            'Invalid value: {"Type":"RuntimeDefault","LocalhostProfile":"a"}: '
            "can only be set when seccomp type is Localhost"
        ),
    ),
    (
        {"windowsOptions": {"runAsUserName": "a\\b\\c"}},
        f"{P}.windowsOptions.runAsUserName",
        r'Invalid value: "a\\b\\c": runAsUserName cannot contain more than one backslash',
    ),
]
CONTAINER: list[tuple[dict[str, Any], str, str]] = [
    ({"runAsUser": -1}, f"{C}.runAsUser", f"Invalid value: -1: {RANGE}"),
    (
        {"procMount": "Hidden"},
        f"{C}.procMount",
        'Unsupported value: "Hidden": supported values: "Default", "Unmasked"',
    ),
    (
        {"procMount": "Unmasked"},
        f"{C}.procMount",
        'Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`',
    ),
]
SPEC: list[tuple[dict[str, Any], str, str]] = [
    (
        {"hostPID": True, "shareProcessNamespace": True},
        f"{P}.shareProcessNamespace",
        "Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
    ),
    (
        {"hostUsers": False, "hostIPC": True},
        "spec.HostIPC",
        "Forbidden: when `hostUsers` is false",
    ),
    (
        {"os": {"name": "windows"}, "securityContext": {"runAsUser": 1}},
        f"{P}.runAsUser",
        "Forbidden: cannot be set for a windows pod",
    ),
    (
        {"os": {"name": "plan9"}},
        "spec.os",
        'Unsupported value: "plan9": supported values: "linux", "windows"',
    ),
]


@pytest.mark.parametrize(("context", "field", "message"), POD)
def test_contexts_of_pods(context: dict[str, Any], field: str, message: str) -> None:
    assert faults(pod(securityContext=context)) == [(field, message)]


@pytest.mark.parametrize(("context", "field", "message"), CONTAINER)
def test_contexts_of_containers(context: dict[str, Any], field: str, message: str) -> None:
    assert faults(pod({"securityContext": context})) == [(field, message)]


@pytest.mark.parametrize(("spec", "field", "message"), SPEC)
def test_security_of_whole_pods(spec: dict[str, Any], field: str, message: str) -> None:
    assert faults(pod(**spec)) == [(field, message)]


def test_privileged_contradicts_no_privilege_escalation() -> None:
    context = {"allowPrivilegeEscalation": False, "privileged": True}
    ((field, message),) = faults(pod({"securityContext": context}))
    assert field == C
    assert message.endswith(
        "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
    )


def test_the_usual_restricted_context_is_valid() -> None:
    """The context that kubebuilder puts into the manifest of every operator."""
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    whole = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert faults(pod({"securityContext": restricted}, securityContext=whole)) == []
