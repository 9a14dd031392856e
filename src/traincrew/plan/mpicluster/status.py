"""The status of an MPICluster: what only this kind has."""

from __future__ import annotations

from typing import Any

from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.lifecycle import Status


class MPIClusterStatus(Status, rename="camel", kw_only=True, omit_defaults=True):
    """``status`` of an MPICluster.

    Attributes:
        mode: Whether it is interactive or runs a command.
        ssh_key_secret_name: The Secret with the keys of all pods; chosen when the first pods are
            created, and again after a suspension, because all pods need the same keys.
        ssh_key_generation: Which key pair of the operator the pods use, counted from 1; 0 if it is
            not one of the operator's.
        ssh_key_rotation_time: Since when the pods get that pair, while they still accept the one
            before it.
        failures: How often the command has failed.
        exit_code: Exit code of the command, when the cluster has ended.
    """

    mode: str = ""
    ssh_key_secret_name: str = ""
    ssh_key_generation: int = 0
    ssh_key_rotation_time: str | None = None
    failures: int = 0
    exit_code: int | None = None


def document(status: MPIClusterStatus) -> dict[str, Any]:
    """Return the whole status as plain data."""
    return {"restarts": 0, **lifecycle.document(status)}
