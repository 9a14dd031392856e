"""The kinds of the API group `policy`."""

from traincrew.local.apiserver.kinds.strategy import ResourceType

__all__ = ["RESOURCES"]

RESOURCES = (
    ResourceType(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short_names=("pdb",),
        status=True,
        generation="spec",
        unconditional_update=False,
        package=__name__,
    ),
)
