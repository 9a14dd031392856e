"""The kinds the operator serves: what each is made of, and who decides for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api import chainerjob
from traincrew.engine.resources import (
    CONFIG_MAPS,
    JOBS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    STATEFUL_SETS,
    Resource,
)
from traincrew.operator.reconciler import Kind
from traincrew.plan.chainerjob import Options, planner
from traincrew.plan.chainerjob_children import LABEL_NAME
from traincrew.plan.model import (
    ChildView,
    ConfigMapView,
    JobView,
    RoleBindingView,
    RoleView,
    StatefulSetView,
)

if TYPE_CHECKING:
    from traincrew.operator.options import OperatorOptions

CHAINER_JOBS = Resource(chainerjob.GROUP, chainerjob.VERSION, chainerjob.PLURAL, chainerjob.KIND)


def chainer_job(options: OperatorOptions) -> Kind:
    """ChainerJob: a master Job and worker StatefulSets."""
    return Kind(
        resource=CHAINER_JOBS,
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


def all_kinds(options: OperatorOptions) -> list[Kind]:
    """Every kind there is."""
    return [chainer_job(options)]
