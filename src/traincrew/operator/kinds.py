"""The kinds the operator serves: what each is made of, and who decides for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api import chainerjob, elasticjob
from traincrew.engine.resources import (
    CONFIG_MAPS,
    JOBS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from traincrew.operator.reconciler import Kind
from traincrew.plan import elasticjob as elasticjob_plan
from traincrew.plan import elasticjob_children, elasticjob_notes
from traincrew.plan.chainerjob import Options, planner
from traincrew.plan.chainerjob_children import LABEL_NAME
from traincrew.plan.model import (
    ChildView,
    ConfigMapView,
    JobView,
    PodView,
    RoleBindingView,
    RoleView,
    StatefulSetView,
)

if TYPE_CHECKING:
    from traincrew.operator.options import OperatorOptions

CHAINER_JOBS = Resource(chainerjob.GROUP, chainerjob.VERSION, chainerjob.PLURAL, chainerjob.KIND)


ELASTIC_JOBS = Resource(elasticjob.GROUP, elasticjob.VERSION, elasticjob.PLURAL, elasticjob.KIND)
RESOURCES = (CHAINER_JOBS, ELASTIC_JOBS)
"""Every kind of job there is."""
SCALABLE = (ELASTIC_JOBS,)
"""Those with a ``scale`` subresource."""


def chainer_job(options: OperatorOptions) -> Kind:
    """ChainerJob: a master Job and worker StatefulSets."""
    return Kind(
        resource=CHAINER_JOBS,
        component="chainer-job-controller",
        label=LABEL_NAME,
        children=(
            (SERVICE_ACCOUNTS, ChildView),
            (ROLES, RoleView),
            (ROLE_BINDINGS, RoleBindingView),
            (CONFIG_MAPS, ConfigMapView),
            (STATEFUL_SETS, StatefulSetView),
            (JOBS, JobView),
        ),
        plan=planner(Options(helper_image=options.helper_image)),
    )


def elastic_job() -> Kind:
    """ElasticJob: pods, each with a Service of its name."""
    group = f"{elasticjob_children.LABEL_GROUP}={elasticjob_children.GROUP_NAME}"
    return Kind(
        resource=ELASTIC_JOBS,
        component=elasticjob_notes.COMPONENT,
        label=elasticjob_children.LABEL_NAME,
        # The Job controller of Kubernetes uses the same label.
        selector=f"{group},{elasticjob_children.LABEL_NAME}",
        children=((SERVICES, ChildView), (PODS, PodView)),
        plan=elasticjob_plan.plan,
        written=elasticjob_notes.written,
    )


def all_kinds(options: OperatorOptions) -> list[Kind]:
    """Every kind there is."""
    return [chainer_job(options), elastic_job()]
