"""Messages about GPUs that this machine does not have."""

from __future__ import annotations


def warn_of_pretended(wanted: int | None) -> str:
    """Return a warning about the option ``--gpus``; empty if this machine has as many GPUs.

    Args:
        wanted: The number of GPUs that the nodes offer; None for those of this machine.
    """
    if not wanted:
        return ""
    from traincrew.local.node import count_gpus

    there = count_gpus()
    if wanted <= there:
        return ""
    return (
        f"warning: --gpus {wanted} is pretended: this machine has {there or 'none'}. Pods that ask"
        " for GPUs run, but without a device: CUDA programs fail, others train on the processor"
    )
