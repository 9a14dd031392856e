"""ChainerJob: its definition; rules over several fields, and printer columns."""

from __future__ import annotations

from traincrew.api.kind import (
    AGE,
    COUNT,
    MESSAGE,
    PHASE,
    PROGRESS,
    REASON,
    RESTARTS,
    Column,
    Kind,
    Rule,
    StatusWords,
    rules,
)
from traincrew.api.kinds.chainerjob.types import (
    CONTAINER,
    GROUP,
    HAS_MAIN_CONTAINER,
    KIND,
    MAX_NAME,
    MAX_NAME_AND_SET,
    PLURAL,
    VERSION,
    ChainerJobSpec,
)
from traincrew.api.reasons import Cause, Reasons

_NOT_DISTRIBUTED = "!has(self.{0}workerSets) || size(self.{0}workerSets) == 0"
SPEC_RULES = rules(
    Rule(
        rule=f"{_NOT_DISTRIBUTED.format('')} || "
        + HAS_MAIN_CONTAINER.replace("self.", "self.master."),
        message=f"one of master.template.spec.containers must be named '{CONTAINER}'",
    ),
    Rule(
        rule=(
            "!has(self.runPolicy) || !has(self.runPolicy.backoffLimit)"
            " || !has(self.master.backoffLimit)"
        ),
        message="set master.backoffLimit or runPolicy.backoffLimit, not both",
    ),
)
"""Rules over ``spec``."""
JOB_RULES = rules(
    Rule(
        rule=f"size(self.metadata.name) <= {MAX_NAME}",
        message=(
            f"metadata.name must have at most {MAX_NAME} characters, because the Job is named"
            " <name>-master"
        ),
    ),
    Rule(
        rule=(
            "!has(self.spec.workerSets) || self.spec.workerSets.all(w,"
            f" size(self.metadata.name) + size(w) <= {MAX_NAME_AND_SET})"
        ),
        message=(
            "metadata.name and a key of spec.workerSets together must have at most"
            f" {MAX_NAME_AND_SET} characters, because the StatefulSet is named"
            " <name>-workerset-<key>"
        ),
    ),
    Rule(
        rule=f"{_NOT_DISTRIBUTED.format('spec.')} || !self.metadata.name.contains('.')",
        message=(
            "metadata.name of a distributed job becomes part of host names: replace '.' by '-'"
        ),
    ),
)
"""Rules over the whole object; only rules at the root can refer to metadata."""

DEFINITION = Kind(
    group=GROUP,
    version=VERSION,
    kind=KIND,
    plural=PLURAL,
    short_names=("chj", "chjs", "chjob", "chjobs"),
    description=(
        "A distributed Chainer training job: a master and sets of workers that communicate by MPI."
    ),
    spec=ChainerJobSpec,
    containers=(CONTAINER,),
    reasons=Reasons({Cause.PROGRAM: f"{KIND}Failed"}),
    spec_rules=SPEC_RULES,
    rules=JOB_RULES,
    columns=(
        PHASE,
        Column(
            name="Workers",
            type="string",
            json_path=".status.workersReady",
            description="Number of ready worker pods, of the number desired, for example 1/2.",
        ),
        RESTARTS,
        PROGRESS,
        AGE,
        REASON,
        MESSAGE,
    ),
    status=StatusWords(
        start_time=(
            "Time at which the master was created, or created again after the job was resumed."
        ),
        replicas="Numbers of pods, for the master and for each worker set by its name.",
        numbers={
            "active": "Number of pods that hold resources, terminating ones included.",
            "ready": "Number of pods that are ready.",
            "succeeded": "1 if the master succeeded.",
            "failed": "Number of master pods that failed.",
            "restarts": "Number of restarts of pods and containers.",
            "slots": "MPI slots of each pod in the hostfile. Only if there are worker sets.",
        },
        fields=dict.fromkeys(("active", "ready", "succeeded", "failed", "terminating"), COUNT),
        condition_times=("lastProbeTime", "lastTransitionTime"),
        words=(
            "`status` is the status of the master's Job (`conditions`, `startTime`,"
            " `completionTime`, `active`,\n`succeeded`, `failed` and so on), and beside it:"
        ),
    ),
)
"""The definition that is installed on a cluster."""
