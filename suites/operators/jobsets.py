"""JobSets that are given to JobSet's own controller and to ours, and what is compared of each."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from suites.operators.beside import OURS, TOKEN, Case, Document

if TYPE_CHECKING:
    from suites.shell import User

PREFIX = "jobset.sigs.k8s.io/"
LABEL = f"{PREFIX}jobset-name"
KEPT = (PREFIX, f"alpha.{PREFIX}", "example.com/")
"""Prefixes of the labels and annotations that are compared."""
LONG = "sleep 600"
ONCE = 'test "$ATTEMPT" != 0'
"""Fails in the first attempt."""
_ATTEMPT = {
    "name": "ATTEMPT",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{PREFIX}restart-attempt']"}},
}


def replicated(
    name: str = "workers", script: str = "sleep 1", pods: int | None = None, **fields: Any
) -> Document:
    """A replicated job whose pods run a shell script; `fields` are those beside its template."""
    container = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", script]}
    spec: Document = {"template": {"spec": {"containers": [{**container, "env": [_ATTEMPT]}]}}}
    if pods is not None:
        spec |= {"parallelism": pods, "completions": pods}
    if "exit" in script or script == ONCE:
        spec["backoffLimit"] = 0
        spec["template"]["spec"]["restartPolicy"] = "Never"
    return {"name": name, "template": {"spec": spec}, **fields}


def with_job(found: Document, **job: Any) -> Document:
    """A replicated job with further fields of its Jobs."""
    found = copy.deepcopy(found)
    found["template"]["spec"] |= job
    return found


def jobset(*jobs: Document, **spec: Any) -> Document:
    """The spec of a JobSet."""
    return {"replicatedJobs": copy.deepcopy(list(jobs)), **spec}


def claims(*names: str, **policy: Any) -> list[Document]:
    """A policy with templates of claims of these names; `policy` is how they are retained."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    templates = [{"metadata": {"name": name}, "spec": spec} for name in names]
    return [{"templates": templates, **({"retentionPolicy": policy} if policy else {})}]


def mounting(found: Document, *names: str) -> Document:
    """A replicated job whose container mounts volumes of these names."""
    found = copy.deepcopy(found)
    (container,) = found["template"]["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": each, "mountPath": f"/{each}"} for each in names]
    return found


def with_volume(found: Document, name: str) -> Document:
    """A replicated job whose pods have a volume of this name themselves."""
    found = copy.deepcopy(found)
    volumes = [{"name": name, "emptyDir": {}}]
    found["template"]["spec"]["template"]["spec"]["volumes"] = volumes
    return found


def rules(*found: Document, restarts: int = 1) -> Document:
    """A failure policy."""
    return {"maxRestarts": restarts, "rules": list(found)}


def manifest(name: str, spec: Document, **annotations: str) -> Document:
    """A JobSet."""
    metadata: Document = {"name": name, "namespace": "default"}
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata,
            "spec": spec}  # fmt: skip


DRIVER = replicated("driver", "sleep 2")
_LONG = replicated(script=LONG)
_TEMPLATE = replicated()
_TEMPLATE["template"]["metadata"] = {
    "labels": {"example.com/team": "vision"},
    "annotations": {"example.com/note": "kept"},
}
_TEMPLATE["template"]["spec"]["template"]["metadata"] = {
    "labels": {"example.com/tier": "pods"},
    "annotations": {"example.com/why": "also"},
}
_EXCLUSIVE = replicated()
_EXCLUSIVE["template"]["metadata"] = {
    "annotations": {
        f"alpha.{PREFIX}exclusive-topology": "rack",
        f"alpha.{PREFIX}node-selector": "true",
    }
}
_WRITER = mounting(replicated("writer", "echo one > /shared/file"), "shared", "kept")
_READER = mounting(
    replicated(
        "reader", "test -s /shared/file", dependsOn=[{"name": "writer", "status": "Complete"}]
    ),
    "shared",
)
_POLICIES = [*claims("shared"), *claims("kept", whenDeleted="Retain")]
_POLICIES[0]["templates"][0]["metadata"] |= {
    "labels": {"example.com/team": "vision"},
    "annotations": {"example.com/note": "kept"},
}
AFTER: Document = {"name": "driver", "status": "Ready"}
ELSEWHERE = "kueue.x-k8s.io/multikueue"


def _case(spec: Document, ends: str = "Completed") -> Case:
    return Case(spec, ends)


CASES: dict[str, Case] = {
    "defaults": _case(jobset(replicated())),
    "pair": _case(
        jobset(DRIVER, replicated(pods=2, replicas=2, groupName="others")),
    ),
    "coordinated": _case(
        jobset(
            DRIVER,
            replicated(pods=2),
            coordinator={"replicatedJob": "workers", "jobIndex": 0, "podIndex": 1},
        )
    ),
    "network": _case(
        jobset(
            replicated(pods=2),
            network={"subdomain": "inside", "publishNotReadyAddresses": False},
        )
    ),
    "no-hosts": _case(jobset(replicated(), network={"enableDNSHostnames": False})),
    "not-indexed": _case(jobset(with_job(replicated(pods=2), completionMode="NonIndexed"))),
    "any": _case(
        jobset(
            DRIVER,
            _LONG,
            successPolicy={"operator": "Any", "targetReplicatedJobs": ["driver"]},
        )
    ),
    "targets": _case(
        jobset(
            replicated("driver", replicas=2),
            _LONG,
            successPolicy={"operator": "All", "targetReplicatedJobs": ["driver"]},
        )
    ),
    "fails": _case(jobset(replicated("driver", "exit 3"), _LONG), "Failed"),
    "restarts": _case(
        jobset(replicated("driver", "exit 3"), _LONG, failurePolicy={"maxRestarts": 1}), "Failed"
    ),
    "restarted": _case(jobset(replicated("driver", ONCE), failurePolicy={"maxRestarts": 2})),
    "blocking": _case(
        jobset(
            replicated("driver", ONCE),
            replicated(),
            failurePolicy={"maxRestarts": 2, "restartStrategy": "BlockingRecreate"},
        )
    ),
    "rule-fails": _case(
        jobset(
            replicated("driver", "exit 3"),
            failurePolicy=rules(
                {
                    "action": "RestartJobSet",
                    "name": "b",
                    "targetReplicatedJobs": ["driver"],
                    "onJobFailureReasons": ["DeadlineExceeded"],
                },
                {
                    "action": "FailJobSet",
                    "name": "a",
                    "onJobFailureReasons": ["BackoffLimitExceeded"],
                },
                restarts=5,
            ),
        ),
        "Failed",
    ),
    "rule-ignores": _case(
        jobset(
            replicated("driver", ONCE),
            failurePolicy=rules(
                {"action": "RestartJobSetAndIgnoreMaxRestarts", "name": "free"}, restarts=0
            ),
        )
    ),
    "rule-message": _case(
        jobset(
            replicated("driver", "exit 3"),
            failurePolicy=rules(
                {
                    "action": "FailJobSet",
                    "name": "limit",
                    "onJobFailureMessagePatterns": ["^Job has reached.*limit$"],
                },
            ),
        ),
        "Failed",
    ),
    "in-order": _case(
        jobset(
            replicated("driver", "sleep 4"),
            replicated(),
            startupPolicy={"startupPolicyOrder": "InOrder"},
        )
    ),
    "after-ready": _case(
        jobset(replicated("driver", "sleep 4"), replicated(dependsOn=[AFTER])),
    ),
    "after-complete": _case(
        jobset(DRIVER, replicated(dependsOn=[{**AFTER, "status": "Complete"}])),
    ),
    "suspended": _case(jobset(DRIVER, replicated(), suspend=True), "Suspended"),
    "template": _case(jobset(_TEMPLATE)),
    "exclusive": _case(jobset(_EXCLUSIVE, suspend=True), "Suspended"),
    "claims": _case(jobset(_WRITER, _READER, volumeClaimPolicies=_POLICIES)),
    "claims-wait": _case(
        jobset(
            mounting(replicated(), "shared"), volumeClaimPolicies=claims("shared"), suspend=True
        ),
        "Suspended",
    ),
    "managed": _case(jobset(replicated(), managedBy=f"{PREFIX}jobset-controller")),
    "elsewhere": _case(jobset(replicated(), managedBy=ELSEWHERE), ""),
}


def observed(user: User, name: str) -> Document:
    """What a user sees of a JobSet that has come to rest."""
    selected = ("-l", f"{LABEL}={name}")
    status = user.get("jobset", name).get("status", {})
    events = user.get("event", "--field-selector", f"involvedObject.name={name}")["items"]
    conditions = {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in status.get("conditions", [])
    }
    return {
        "jobs": {_name(each): _job(each) for each in user.get("job", *selected)["items"]},
        "services": {
            _name(each): _service(each)
            for each in user.get("service")["items"]
            if (each["spec"].get("selector") or {}).get(LABEL) == name
        },
        "claims": {_name(each): _claim(each) for each in user.get("pvc", *selected)["items"]},
        "conditions": conditions,
        "restarts": [
            status.get(field) for field in ("restarts", "restartsCountTowardsMax", "terminalState")
        ],
        "replicated": status.get("replicatedJobsStatus"),
        "events": sorted(
            {
                (each["type"], each["reason"])
                for each in events
                if each["involvedObject"]["kind"] == "JobSet"
            }
        ),
    }


def _name(found: Document) -> str:
    return str(found["metadata"]["name"])


def _texts(found: dict[str, str] | None) -> dict[str, str]:
    """The texts that are compared; the UID is another one for each."""
    return {
        key: "" if key.endswith("jobset-uid") else text
        for key, text in (found or {}).items()
        if key.startswith(KEPT)
    }


def _owners(found: Document) -> list[Document]:
    return [
        {key: value for key, value in each.items() if key != "uid"}
        for each in found["metadata"].get("ownerReferences", [])
    ]


def _marks(metadata: Document) -> Document:
    return {name: _texts(metadata.get(name)) for name in ("labels", "annotations")}


def _job(found: Document) -> Document:
    spec = found["spec"]
    pod = spec["template"]["spec"]
    fields = ("parallelism", "completions", "completionMode", "backoffLimit", "suspend")
    places = ("restartPolicy", "subdomain", "nodeSelector", "tolerations", "affinity")
    return {
        **_marks(found["metadata"]),
        "owners": _owners(found),
        **{name: spec.get(name) for name in fields},
        "pods": _marks(spec["template"]["metadata"]),
        **{name: pod.get(name) for name in places},
        "volumes": [each for each in pod.get("volumes", []) if each["name"] != TOKEN],
        "containers": [
            {
                **{name: each.get(name) for name in ("name", "image", "command", "resources")},
                "env": [one for one in each.get("env", []) if not one["name"].startswith(OURS)],
            }
            for each in pod["containers"]
        ],
    }


def _claim(found: Document) -> Document:
    # The name of the volume has the UID of the claim in it.
    spec = {name: value for name, value in found["spec"].items() if name != "volumeName"}
    return {**_marks(found["metadata"]), "owners": _owners(found), "spec": spec}


def _service(found: Document) -> Document:
    spec = found["spec"]
    fields = ("clusterIP", "selector", "publishNotReadyAddresses", "ports")
    return {"owners": _owners(found), **{name: spec.get(name) for name in fields}}
