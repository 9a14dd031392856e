"""Alert rules for Prometheus and a dashboard for Grafana, from the names of the metrics.

Other operators have metrics of the same names, because those of controller-runtime are the common
ones. So every expression selects the controllers of our kinds, or the instances that have a metric
that only this project has. Neither has placeholders of Helm, whose syntax is that of Prometheus.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from traincrew.api.kinds import INSTALLED

if TYPE_CHECKING:
    from collections.abc import Iterator

Document = dict[str, Any]

_CONTROLLERS = "|".join(sorted({kind.kind.lower() for kind in INSTALLED}))
_OURS = f'{{controller=~"{_CONTROLLERS}"}}'
_QUEUES = f'{{name=~"{_CONTROLLERS}"}}'
_INSTANCES = "group by (instance) (traincrew_watch_relists_total)"


class Alert(Struct, frozen=True):
    """An alert.

    Attributes:
        name: In CamelCase.
        expression: It fires while the expression has a result.
        minutes: For how long before it fires.
        severity: ``critical`` if no job is served meanwhile.
        summary: What is the matter, in one line.
        fix: What to check first.
    """

    name: str
    expression: str
    minutes: int
    severity: Literal["critical", "warning"]
    summary: str
    fix: str


ALERTS = (
    Alert(
        "TraincrewAbsent",
        f"absent(controller_runtime_max_concurrent_reconciles{_OURS})",
        5,
        "critical",
        "No operator of training jobs is scraped: jobs may not be served.",
        "kubectl get pods of the operator's namespace; then the targets of Prometheus.",
    ),
    Alert(
        "TraincrewWithoutLeader",
        f"sum(leader_election_master_status and on (instance) {_INSTANCES}) == 0",
        2,
        "critical",
        "Operators run, but none leads: no job makes progress.",
        "The operator's log, and the Lease in its namespace: kubectl get lease -o yaml.",
    ),
    Alert(
        "TraincrewLeadershipLost",
        "sum(increase(traincrew_leadership_lost_total[15m])) > 2",
        0,
        "warning",
        "Leaders could not renew their Lease in time, again and again: jobs are served with gaps.",
        "How long the API server and etcd take to answer; the CPU limit of the operator.",
    ),
    Alert(
        "TraincrewReconcilesFail",
        f"sum by (controller) (rate(controller_runtime_reconcile_errors_total{_OURS}[5m])) > 0.1",
        15,
        "warning",
        "Reconciles of jobs keep failing.",
        "The operator's log at level warning names the job and the reason.",
    ),
    Alert(
        "TraincrewReconcileHangs",
        f"max by (name) (workqueue_longest_running_processor_seconds{_QUEUES}) > 120",
        5,
        "warning",
        "A reconcile has been in progress for minutes.",
        "Whether the API server answers; the operator's log.",
    ),
    Alert(
        "TraincrewQueueIsSlow",
        "histogram_quantile(0.95, sum by (name, le)"
        f" (rate(workqueue_queue_duration_seconds_bucket{_QUEUES}[5m]))) > 60",
        10,
        "warning",
        "Jobs wait for more than a minute before they are looked at.",
        "The number of jobs that begin; the operator's CPU limit; its option --workers.",
    ),
    Alert(
        "TraincrewWatchesFail",
        "sum by (resource) (rate(traincrew_watch_errors_total[5m])) > 0.05",
        15,
        "warning",
        "The operator cannot list or watch a resource.",
        "Its ClusterRole or Role; whether the CustomResourceDefinition is installed.",
    ),
    Alert(
        "TraincrewUndecodableObjects",
        "sum by (resource) (increase(traincrew_undecodable_objects_total[1h])) > 0",
        0,
        "warning",
        "Objects do not fit the types of this version of the operator.",
        "The operator's log names them; whether CustomResourceDefinitions are of its version.",
    ),
    Alert(
        "TraincrewJobsNotProgressing",
        "sum by (kind, namespace, reason) (traincrew_jobs_not_progressing) > 0",
        0,
        "warning",
        "Training jobs run, but their reports do not advance, or one rank is far behind.",
        "traincrew list finds the jobs of the namespace, traincrew why JOB says what it waits for.",
    ),
    Alert(
        "TraincrewRequestsFail",
        'sum by (instance) (rate(rest_client_requests_total{code=~"5.."}[5m]))'
        " / sum by (instance) (rate(rest_client_requests_total[5m])) > 0.05"
        f" and on (instance) {_INSTANCES}",
        15,
        "warning",
        "The API server answers one in twenty of the operator's requests with an error.",
        "The API server and etcd.",
    ),
)


def rule_groups() -> Document:
    """Return the alerts as a rule file of Prometheus, or the spec of a PrometheusRule."""
    return {"groups": [{"name": "traincrew", "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> Document:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": f"{alert.minutes}m",
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.summary, "description": alert.fix},
    }


class Panel(Struct, frozen=True):
    """A panel of the dashboard.

    Attributes:
        title: What it shows.
        queries: Expressions and their legends.
        unit: Unit of Grafana, such as ``s`` or ``bytes``.
        kind: ``stat`` for numbers of now.
        stacked: Whether the series add up.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: Literal["timeseries", "stat"] = "timeseries"
    stacked: bool = False


_IN_NAMESPACE = 'namespace=~"$namespace"'
PANELS = (
    Panel(
        "Jobs running",
        ((f'sum(traincrew_jobs{{phase="Running",{_IN_NAMESPACE}}}) or vector(0)', "running"),),
        kind="stat",
    ),
    Panel(
        "Jobs waiting",
        (
            (
                (
                    'sum(traincrew_jobs{phase=~"Pending|Created|Restarting",'
                    f"{_IN_NAMESPACE}}}) or vector(0)"
                ),
                "waiting",
            ),
        ),
        kind="stat",
    ),
    Panel(
        "Jobs failed",
        ((f'sum(traincrew_jobs{{phase="Failed",{_IN_NAMESPACE}}}) or vector(0)', "failed"),),
        kind="stat",
    ),
    Panel(
        "Leaders",
        ((f"sum(leader_election_master_status and on (instance) {_INSTANCES})", "leaders"),),
        kind="stat",
    ),
    Panel(
        "Jobs by phase",
        ((f"sum by (phase) (traincrew_jobs{{{_IN_NAMESPACE}}})", "{{phase}}"),),
        stacked=True,
    ),
    Panel(
        "Jobs by kind",
        ((f"sum by (kind) (traincrew_jobs{{{_IN_NAMESPACE}}})", "{{kind}}"),),
        stacked=True,
    ),
    Panel(
        "Reconciles by result",
        (
            (
                (
                    "sum by (result)"
                    f" (rate(controller_runtime_reconcile_total{_OURS}[$__rate_interval]))"
                ),
                "{{result}}",
            ),
        ),
        unit="ops",
        stacked=True,
    ),
    Panel(
        "Duration of a reconcile",
        tuple(
            (
                (
                    f"histogram_quantile({quantile}, sum by (le) (rate("
                    f"controller_runtime_reconcile_time_seconds_bucket{_OURS}[$__rate_interval])))"
                ),
                f"{quantile:.0%}",
            )
            for quantile in (0.5, 0.95, 0.99)
        ),
        unit="s",
    ),
    Panel("Requests waiting", ((f"sum by (name) (workqueue_depth{_QUEUES})", "{{name}}"),)),
    Panel(
        "Wait for a worker, 95%",
        (
            (
                (
                    "histogram_quantile(0.95, sum by (name, le) (rate("
                    f"workqueue_queue_duration_seconds_bucket{_QUEUES}[$__rate_interval])))"
                ),
                "{{name}}",
            ),
        ),
        unit="s",
    ),
    Panel(
        "Requests to the API server",
        (
            (
                (
                    "sum by (code, method) (rate(rest_client_requests_total[$__rate_interval])"
                    f" and on (instance) {_INSTANCES})"
                ),
                "{{method}} {{code}}",
            ),
        ),
        unit="reqps",
        stacked=True,
    ),
    Panel(
        "Failed lists and watches",
        (
            (
                "sum by (resource) (rate(traincrew_watch_errors_total[$__rate_interval]))",
                "{{resource}}",
            ),
        ),
        unit="ops",
    ),
    Panel(
        "Memory",
        (
            (
                f"process_resident_memory_bytes and on (instance) {_INSTANCES}",
                "{{instance}}",
            ),
        ),
        unit="bytes",
    ),
    Panel(
        "CPU",
        (
            (
                f"rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) {_INSTANCES}",
                "{{instance}}",
            ),
        ),
        unit="percentunit",
    ),
)

_COLUMNS = 24  # of Grafana's grid


def dashboard() -> Document:
    """Return the dashboard, to be imported into Grafana."""
    return {
        "uid": "traincrew",
        "title": "traincrew",
        "tags": ["traincrew"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_data_source(), _namespaces()]},
        "panels": list(_placed()),
    }


def _data_source() -> Document:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _namespaces() -> Document:
    return {
        "name": "namespace",
        "label": "Namespace",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": "label_values(traincrew_jobs, namespace)", "refId": "namespaces"},
        "refresh": 2,  # when the time range changes
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _placed() -> Iterator[Document]:
    """Yield the panels in rows: four numbers, then two diagrams side by side."""
    column = row = 0
    for number, panel in enumerate(PANELS, 1):
        width, height = (6, 4) if panel.kind == "stat" else (12, 8)
        yield _panel(number, panel, {"x": column, "y": row, "w": width, "h": height})
        column += width
        if column == _COLUMNS:
            column, row = 0, row + height


def _panel(number: int, panel: Panel, place: Document) -> Document:
    custom = {"fillOpacity": 20, "stacking": {"mode": "normal"}} if panel.stacked else {}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": custom},
            "overrides": [],
        },
        "targets": [
            {
                "refId": chr(ord("A") + place_in_list),
                "datasource": _SOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for place_in_list, (expression, legend) in enumerate(panel.queries)
        ],
    }
