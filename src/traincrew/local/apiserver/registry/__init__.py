"""The registry: the served resources, with their versions and verbs.

The packages above use it to resolve a path; `writes` changes it when CustomResourceDefinitions are
created and deleted. It holds no objects.
"""

from .registry import ALL_VERBS, Registry, ResourceType, ScalePaths, Subresource, version_order

__all__ = ["ALL_VERBS", "Registry", "ResourceType", "ScalePaths", "Subresource", "version_order"]
