"""The kinds whose jobs are measured."""

from traincrew.operator.kinds import RESOURCES

CHAINER_JOBS, ELASTIC_JOBS, MX_JOBS, MPI_CLUSTERS = (
    next(resource for resource in RESOURCES if resource.kind == kind)
    for kind in ("ChainerJob", "ElasticJob", "MxJob", "MPICluster")
)
