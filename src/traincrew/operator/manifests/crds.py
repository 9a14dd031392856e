"""The CustomResourceDefinitions: one text for kubectl, kustomize and Helm.

In the repository it is one file, ``config/crd/definitions.yaml``; ``deploy/`` and the charts have
symbolic links to it. It is in ``config/`` because kustomize refuses a link to a file outside of its
directory, whereas kubectl and Helm follow it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from traincrew.api.crd import definition
from traincrew.api.kinds import INSTALLED
from traincrew.operator.manifests.yamltext import dump_all

if TYPE_CHECKING:
    from traincrew.operator.manifests.template import Document

FILE = "definitions.yaml"
"""Its name in a chart, and in ``config/crd``."""
TEMPLATE = f"""\
{{{{ .Files.Get "{FILE}" | replace "\\nmetadata:\\n" \
"\\nmetadata:\\n  annotations:\\n    helm.sh/resource-policy: keep\\n" }}}}
"""
"""A template of Helm: a release installs the definitions, and keeps them when it is uninstalled."""


def documents() -> list[Document]:
    """Return the definitions of the kinds that are installed."""
    return [definition(kind) for kind in INSTALLED]


@cache
def text() -> str:
    """Return the definitions as a stream of YAML documents; they take longer than all the rest."""
    return dump_all(documents())
