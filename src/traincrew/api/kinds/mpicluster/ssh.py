"""``spec.ssh`` of an MPICluster: keys, and a way in from outside."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from traincrew.api.kind import Rule, rules
from traincrew.api.kinds.mpicluster.codesync import OBJECT_NAME

DEFAULT_NODE_PORT = 30220
DEFAULT_KEY_OVERLAP_SECONDS = 300
"""A kubelet refreshes the volumes of a pod once a minute, with Secrets that are at most as old."""
MAX_KEY_GENERATION = 1_000_000
GIVEN_KEYS = (
    "the operator does not replace keys that it has not made; remove the field, and change the"
    " Secret of keySecretName"
)
SSH_RULES = rules(
    Rule(
        rule="!has(self.keySecretName) || self.keyGeneration == 1",
        message=f"keyGeneration: {GIVEN_KEYS}",
    ),
)
"""Rules over ``spec.ssh``."""


class Gateway(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """A Service by which the master is reached by ssh from outside."""

    enabled: Annotated[
        bool,
        Meta(description="Whether there is a Service <name>-ssh-gateway of type NodePort."),
    ] = False
    node_port: Annotated[
        int, Meta(ge=1, le=65535, description="Port of the nodes for ssh to the master.")
    ] = DEFAULT_NODE_PORT


class Ssh(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """Keys and gateway of ssh."""

    key_secret_name: Annotated[
        Annotated[str, Meta(pattern=OBJECT_NAME, max_length=253)] | None,
        Meta(
            description=(
                "Name of a Secret with the key pair that all pods share: id_rsa and id_rsa.pub (or"
                " id_ed25519 and id_ed25519.pub), and authorized_keys. If it is not set, the"
                " operator creates <name>-ssh-key with an ed25519 key pair."
            ),
        ),
    ] = None
    key_generation: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_KEY_GENERATION,
            description=(
                "Number of the key pair that the operator makes. A higher one than"
                " status.sshKeyGeneration replaces the pair; commands that run are not affected. A"
                " lower one has no effect."
            ),
        ),
    ] = 1
    key_overlap_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=86400,
            description=(
                "Number of seconds for which the pods accept the key pair before the newest one, at"
                " least: the time that the nodes may take to give the new one to all pods."
            ),
        ),
    ] = DEFAULT_KEY_OVERLAP_SECONDS
    gateway: Annotated[
        Gateway, Meta(description="A Service by which the master is reached by ssh from outside.")
    ] = Gateway()
