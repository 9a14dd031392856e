"""The operator's manifests, and beside them those with names and values of its predecessors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.operator import manifests
from traincrew.operator.manifests import NAMESPACE, chart
from traincrew.operator.manifests.values import DEFAULTS
from traincrew.predecessors import directories, mxnet, openmpi

if TYPE_CHECKING:
    from traincrew.operator.manifests import Format
    from traincrew.operator.manifests.values import Values

CHARTS = {
    chart.NAME: chart.files,
    mxnet.OPERATOR_CHART: mxnet.operator_chart,
    mxnet.JOB_CHART: mxnet.job_chart,
    openmpi.CHART: openmpi.files,
}
"""The charts, by the name of their directory."""


def render(
    values: Values = DEFAULTS,
    namespace: str = NAMESPACE,
    layout: Format = "plain",
    chart_name: str = chart.NAME,
) -> dict[str, str]:
    """Return the manifests as text, by path, as `traincrew.operator.manifests.render` does.

    The kustomize directories are more by one for each predecessor.

    Args:
        values: The values; a chart takes them when it is installed.
        namespace: The namespace of the installation; of a chart, that of the release.
        layout: For which program.
        chart_name: Which of `CHARTS`.

    Raises:
        ValueError: The values are inconsistent.
    """
    if layout == "helm":
        return manifests.with_headers(CHARTS[chart_name]())
    files = manifests.render(values, namespace, layout)
    if layout == "kustomize":
        files |= manifests.with_headers(directories.files(manifests.filling(values, namespace)))
    return files
