"""The Helm chart: the same templates as Helm templates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds import DEFINITIONS, INSTALLED
from traincrew.operator.manifests import crds, flowcontrol, rbac, workload
from traincrew.operator.manifests.chartvalues import schema_text, values_text
from traincrew.operator.manifests.checks import CHECKS
from traincrew.operator.manifests.helm import HelmWriter
from traincrew.operator.manifests.values import DEFAULTS, Values, plain
from traincrew.operator.manifests.yamltext import dump
from traincrew.operator.options import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.operator.manifests.template import Document

NAME = "traincrew"


def files() -> dict[str, str]:
    """Return the chart's files by path."""
    writer = HelmWriter(plain(DEFAULTS), helper=f"{NAME}.image")
    templates: dict[str, list[Any]] = {
        "deployment": [workload.deployment()],
        "disruption-budget": [workload.disruption_budget()],
        "metrics": [workload.service(), workload.service_monitor(), workload.prometheus_rule()],
        "metrics-roles": rbac.metrics_roles(),
        "network-policy": [workload.network_policy()],
        "operator-role": [*rbac.operator_role(), *rbac.operator_binding()],
        "leader-election-role": [rbac.lease_role(), rbac.lease_binding()],
        "other-kinds": rbac.project_roles(),
        "priority-and-fairness": flowcontrol.priority_and_fairness(),
        "progress": [*rbac.progress_roles(), workload.progress_service()],
        "service-account": [rbac.service_account()],
        "user-roles": [*rbac.user_roles().values()],
    }
    return {
        "Chart.yaml": dump(_chart()),
        "README.md": _readme(),
        "values.yaml": values_text(Values, plain(DEFAULTS)),
        "values.schema.json": schema_text(NAME, Values),
        "templates/NOTES.txt": _notes(),
        "templates/_helpers.tpl": _HELPERS,
        "templates/checks.yaml": _checks(),
        crds.FILE: crds.text(),
        "templates/crd.yaml": (
            f"{{{{- if .Values.crds.enabled }}}}\n{crds.TEMPLATE}{{{{- end }}}}\n"
        ),
        **{f"templates/{name}.yaml": writer.write(nodes) for name, nodes in templates.items()},
    }


_OURS = tuple(each for each in DEFINITIONS if not each.project)


def _chart() -> Document:
    kinds = _and(kind.kind for kind in _OURS)
    return {
        "apiVersion": "v2",
        "name": NAME,
        "description": f"Operator for distributed training jobs ({kinds}).",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["training", "mpi", "chainer", "operator"],
    }


# -- templates --------------------------------------------------------------------------------


def _checks() -> str:
    """Return a template that renders to nothing, or fails with a message."""
    return "".join(
        f"{{{{- if {check.condition} }}}}\n{{{{- fail {json.dumps(check.message)} }}}}\n"
        "{{- end }}\n"
        for check in CHECKS
    )


_HELPERS = """\
{{- /* The reference to an image: its repository with a digest, a tag, or the chart's version. */}}
{{- define "traincrew.image" -}}
{{- $image := index . 0 -}}
{{- $chart := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $chart.AppVersion }}
{{- end -}}
{{- end }}
"""


def _notes() -> str:
    """Return the notes that Helm prints after an installation."""
    names = [f"{kind.plural}.{kind.group}" for kind in INSTALLED]
    # Kinds of the same plural can only be told apart with their groups.
    plurals = [
        name if each.older_groups else each.plural
        for each in _OURS
        for name in (f"{kind.plural}.{kind.group}" for kind in each.served)
    ]
    return (
        _NOTES.replace("@KINDS@", _and(f"{kind.kind}s" for kind in _OURS))
        .replace("@PLURALS@", ",".join(plurals))
        .replace("@DEFINITIONS@", " ".join(names))
    )


def _and(words: Iterable[str]) -> str:
    """Join words as a list in a sentence."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _readme() -> str:
    """Return what ``helm show readme`` prints."""
    return _README.replace("@KINDS@", _and(f"{kind.kind}s" for kind in _OURS))


_README = """\
# traincrew

Operator for @KINDS@.

For the jobs of one namespace:

```
kubectl create namespace research
helm install traincrew charts/traincrew --namespace chainer-operator \\
  --create-namespace --set watchNamespace=research
```

It may then run pods, write Secrets and read logs in that namespace, and nowhere else. It has a
namespace of its own, so that nobody who may run pods beside its jobs can use its token.

For the jobs of all namespaces, which is the default, leave `watchNamespace` out. It then may do
the same in every namespace, `kube-system` included: whoever takes it over has the cluster. Choose
that where all users trust each other, or limit it by admission policies
(docs/design/operator-permissions.md).

All values are explained in values.yaml; docs/guides/install.md has the rest.
"""

_NOTES = """\
{{ .Values.name }} {{ .Chart.AppVersion }} is installed in namespace {{ .Release.Namespace }}.
{{- if .Values.watchNamespace }}
It serves the @KINDS@ of namespace {{ .Values.watchNamespace }},
and may run pods, write Secrets and read logs there only.
{{- else }}
It serves the @KINDS@ of all namespaces,
and may run pods, write Secrets and read logs in each of them: whoever takes it over has the
cluster. To limit it to one namespace, set watchNamespace.
{{- end }}

Wait until it is ready:

  kubectl --namespace {{ .Release.Namespace }} rollout status deployment/{{ .Values.name }}

Then create a job, and watch it:

  kubectl create -f my-job.yaml
  kubectl get @PLURALS@
{{- if not .Values.crds.enabled }}

The CustomResourceDefinitions are not part of this release (crds.enabled is false).
Have them installed by somebody who may: traincrew manifests --crds-only | kubectl apply -f -
{{- else }}

Uninstalling this release keeps the CustomResourceDefinitions, and with them all jobs.
To delete both:

  kubectl delete crd @DEFINITIONS@
{{- end }}
"""
