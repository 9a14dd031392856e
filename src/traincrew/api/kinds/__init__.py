"""The kinds of training jobs, one folder each.

A folder has ``types`` (the fields of ``spec``), ``rules`` (what only code can check) and
``definition``, whose ``DEFINITION`` describes the kind to API servers, kubectl and the reference
page. Folders are discovered, not listed: a new folder is a new kind.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traincrew.api.kind import Kind

__all__ = ["DEFINITIONS", "FOLDERS", "INSTALLED", "KINDS", "OF_OTHERS"]


def _definition(folder: str) -> Kind:
    found: Kind = import_module(f"{__name__}.{folder}.definition").DEFINITION
    return found


FOLDERS = tuple(sorted(module.name for module in iter_modules(__path__) if module.ispkg))
"""Names of the folders; `traincrew.plan` has a folder of the same name for each."""
DEFINITIONS = tuple(map(_definition, FOLDERS))
"""The definitions, one per folder."""
KINDS = tuple(kind for definition in DEFINITIONS for kind in definition.served)
"""All kinds as they are served: a definition once for each of its groups."""
INSTALLED = tuple(kind for kind in KINDS if not kind.project)
"""The kinds that are installed on clusters; the embedded cluster has all."""
OF_OTHERS = tuple(kind for kind in KINDS if kind.project)
"""The kinds of other projects, which clusters have already if they have them."""
