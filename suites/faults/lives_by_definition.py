"""Life cycles of jobs whose definition is their project's, which stores half of the status.

Each change of the status is two writes then: of an annotation, and of the status itself.
"""

from __future__ import annotations

from suites.faults.lives_of_projects import (
    JOB_SETS,
    JobSetLife,
    MPIJobLife,
    PyTorchLife,
    TrainJobLife,
)

import statusschemas
from traincrew.engine.resources import Resource


class MPIJobByDefinition(MPIJobLife):
    """With the definition of mpi-operator."""

    writes = (30, 60)
    stride = 2
    resource = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
    declared = statusschemas.KUBEFLOW_JOB


class PyTorchByDefinition(PyTorchLife):
    """With the definition of training-operator."""

    writes = (24, 50)
    stride = 2
    resource = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
    declared = statusschemas.KUBEFLOW_JOB


class JobSetByDefinition(JobSetLife):
    """With the definition of JobSet."""

    writes = (26, 60)
    stride = 2
    resource = JOB_SETS
    declared = statusschemas.JOB_SET


class TrainJobByDefinition(TrainJobLife):
    """With the definition of Trainer."""

    writes = (24, 60)
    stride = 2
    resource = Resource("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob")
    declared = statusschemas.TRAIN_JOB


LIVES = [MPIJobByDefinition(), PyTorchByDefinition(), JobSetByDefinition(), TrainJobByDefinition()]
