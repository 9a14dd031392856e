"""``spec.transport`` of an MPICluster: how mpiexec starts processes in other pods."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from traincrew.api.kind import Rule

SSH: Final = "ssh"
EXEC: Final = "exec"

Transport = Annotated[
    Literal["ssh", "exec"],
    Meta(
        description=(
            "How mpiexec starts processes in other pods. With ssh, the default, every pod runs sshd"
            " and has a key. With exec the image needs neither: the master uses kubectl exec, and"
            " its ServiceAccount may do that in the workers of this cluster, and nothing else. It"
            " cannot be changed."
        )
    ),
]

GENERATED_MOUNT = "/kube-openmpi/generated"
KEY_MOUNT = "/ssh-key/openmpi"
SCRIPTS_MOUNT = "/kube-openmpi/assets"
KUBECTL_MOUNT = "/kube-openmpi/kube"
"""Directories at which the operator mounts volumes: the hostfile, keys, scripts, and kubectl."""
MOUNTS: Final = {
    SSH: (GENERATED_MOUNT, KEY_MOUNT),
    EXEC: (GENERATED_MOUNT, SCRIPTS_MOUNT, KUBECTL_MOUNT),
}
KUBECTL_CONTAINER = "kube-openmpi-kubectl"
"""The init container of the master that brings kubectl."""
OWN_MOUNTS = tuple(dict.fromkeys(mount for mounts in MOUNTS.values() for mount in mounts))

GATEWAY_NEEDS_SSH = "there is no sshd with transport: exec; remove one of the two"
KEYS_NEED_SSH = "no keys are used with transport: exec; remove one of the two"
RULES = (
    Rule(
        rule="self.transport == oldSelf.transport",
        message=(
            "transport cannot be changed, because it concerns all pods at once: delete the cluster"
            " and create it again"
        ),
    ),
    Rule(
        rule=(
            f"self.transport == '{SSH}' || !has(self.ssh) || !has(self.ssh.gateway) ||"
            " !self.ssh.gateway.enabled"
        ),
        message=f"ssh.gateway.enabled: {GATEWAY_NEEDS_SSH}",
    ),
    Rule(
        rule=f"self.transport == '{SSH}' || !has(self.ssh) || !has(self.ssh.keySecretName)",
        message=f"ssh.keySecretName: {KEYS_NEED_SSH}",
    ),
    Rule(
        rule=f"self.transport == '{SSH}' || !has(self.ssh) || self.ssh.keyGeneration == 1",
        message=f"ssh.keyGeneration: {KEYS_NEED_SSH}",
    ),
)
"""Rules over ``spec``."""
