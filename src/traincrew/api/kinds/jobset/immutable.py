"""What of a JobSet may change: CEL rules that compare it with the stored one.

JobSet's webhook compares the replicated jobs as a whole, without the fields of the pods that Kueue
sets while a JobSet is suspended (``ValidateUpdate``). CEL has no copy of an object without a field,
so the rules list the others.
"""

from __future__ import annotations

from traincrew.api.crd import pod_template
from traincrew.api.kind import Rule
from traincrew.api.kinds.jobset.jobtemplate import JOB_FIELDS

_SUSPENDED_POD = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
"""Fields of pods that may change while a JobSet is suspended, beside labels and annotations."""
_JOBS = "replicatedJobs.map(r, {})"
_PER_RULE = 12
"""Fields in one rule: each rule has a limited cost."""


def _unchanged(value: str) -> str:
    """Return a CEL expression that is true if a value of each replicated job is as before."""
    found = _JOBS.format(value)
    return f"self.{found} == oldSelf.{found}"


def _among(path: str, names: list[str]) -> list[str]:
    return [_unchanged(f"r.{path}.?{name}") for name in names]


def _pod_fields() -> list[str]:
    fields = pod_template()["properties"]["spec"]["properties"]
    return sorted(fields.keys() - _SUSPENDED_POD)


def update_rules() -> list[Rule]:
    """Return the rules over ``spec`` that compare it with the stored one."""
    both = "!has(oldSelf.replicatedJobs) || !has(self.replicatedJobs)"
    there = "has(self.replicatedJobs) == has(oldSelf.replicatedJobs)"
    running = "!oldSelf.?suspend.orValue(false) && !self.?suspend.orValue(false)"
    checks = [
        ("replicatedJobs", ["r.name", "r.?replicas.orValue(1)", "r.?groupName.orValue('default')"]),
        ("replicatedJobs.dependsOn", ["r.?dependsOn"]),
    ]
    found = [
        Rule(rule=there, message="replicatedJobs cannot be changed"),
        Rule(
            rule=f"{both} || !({running}) || self.replicatedJobs == oldSelf.replicatedJobs",
            message="replicatedJobs cannot be changed while the JobSet is not suspended",
        ),
    ]
    for name, values in checks:
        compared = " && ".join(map(_unchanged, values))
        found.append(Rule(rule=f"{both} || ({compared})", message=f"{name} cannot be changed"))
    groups = (
        ("template", ["metadata"]),
        ("template.spec", sorted(JOB_FIELDS)),
        ("template.spec.template.spec", _pod_fields()),
    )
    for path, names in groups:
        for start in range(0, len(names), _PER_RULE):
            compared = " && ".join(_among(path, names[start : start + _PER_RULE]))
            found.append(
                Rule(
                    rule=f"{both} || ({compared})",
                    message=(
                        f"replicatedJobs.{path} cannot be changed, except for labels, annotations,"
                        " nodeSelector, tolerations and schedulingGates of the pods of a suspended"
                        " JobSet"
                    ),
                )
            )
    return found
