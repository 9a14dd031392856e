"""The registry: the served resources, with their versions and verbs.

The packages above use it to resolve a path; `writes` changes it when CustomResourceDefinitions are
created and deleted. It holds no objects.
"""

from traincrew.local.apiserver.kinds.strategy import (
    ALL_VERBS,
    ResourceType,
    ScalePaths,
    Subresource,
)

from .registry import Registry, version_order

__all__ = ["ALL_VERBS", "Registry", "ResourceType", "ScalePaths", "Subresource", "version_order"]
