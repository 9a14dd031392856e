"""Messages about GPUs that this machine does not have."""

from __future__ import annotations


def warn_of_missing(wanted: int | None) -> str:
    """Return a warning about the option ``--gpus``; empty if this machine has as many GPUs.

    Args:
        wanted: The number of GPUs that the nodes offer; None for those of this machine.
    """
    if not wanted:
        return ""
    from traincrew.local.node import count_gpus, machine_gpus

    there = count_gpus()
    if wanted <= there:
        return ""
    if there and machine_gpus():
        shared = "it" if there == 1 else "them"
        return f"warning: --gpus {wanted}: this machine has {there}, so pods share {shared}"
    return (
        f"warning: --gpus {wanted} is pretended: this machine has {there or 'none'}. Pods that ask"
        " for GPUs run, but without a device: CUDA programs fail, others train on the processor"
    )
