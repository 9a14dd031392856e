"""The same jobs on a cluster with training-operator and on one with ours, and what users see."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from suites.operators.modules import sources
from suites.operators.test_operators import installed
from suites.shell import User

from traincrew.local.directories import default_cache

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

Document = dict[str, Any]
LABEL = "training.kubeflow.org/job-name"
OURS = ("KUBEFLOW_TRAINER_",)
"""Prefixes of variables for reports of progress, which all kinds here have."""


class Case(NamedTuple):
    """A job, and the condition by which it has come to rest; empty if it gets none."""

    spec: Document
    ends: str


class Both(NamedTuple):
    """Someone with training-operator on a cluster, and someone with ours."""

    theirs: User
    ours: User
    kind: str

    def manifest(self, name: str, spec: Document) -> Document:
        """A job."""
        metadata = {"name": name, "namespace": "default"}
        return {"apiVersion": "kubeflow.org/v1", "kind": self.kind, "metadata": metadata,
                "spec": spec}  # fmt: skip

    def settled(self, user: User, case: str, pods: int | None) -> Document:
        """What is seen of a job when its pods do not change any more."""

        def still() -> Document:
            found = observed(user, self.kind, case)
            if pods is not None and len(found["pods"]) != pods:
                return {}
            again = observed(user, self.kind, case)
            return found if found == again else {}

        return user.until(f"{case} does not change any more", still, 60)

    def differences(self, case: str, pods: int | None) -> dict[str, tuple[Any, Any]]:
        """What differs, ours and theirs, by part.

        Args:
            case: Name of the job.
            pods: How many are left; None if it does not matter.
        """
        theirs, ours = (self.settled(user, case, pods) for user in (self.theirs, self.ours))
        # Why a pod failed comes behind what training-operator says.
        said = zip(ours["messages"], theirs["messages"], strict=False)
        ours["messages"] = [one[: len(other)] for one, other in said] or ours["messages"]
        ours["selectors"] = {kind: ours["selectors"].get(kind) for kind in theirs["selectors"]}
        return {part: (ours[part], theirs[part]) for part in theirs if ours[part] != theirs[part]}

    def said_of(self, case: str, spec: Document) -> Iterator[str]:
        """What both say when they refuse a job."""
        given = json.dumps(self.manifest(case, spec))
        for user in (self.theirs, self.ours):
            yield user.kubectl("create", "-f", "-", given=given, code=1)


def assert_known(
    found: Mapping[str, tuple[Any, Any]], known: Collection[str], sometimes: Collection[str] = ()
) -> None:
    """Assert that differences are the known ones.

    Args:
        found: Those that were found, by part.
        known: Parts that always differ.
        sometimes: Parts that differ or not, by timing.
    """
    new = {part: pair for part, pair in found.items() if part not in {*known, *sometimes}}
    assert not new, "ours, and theirs"
    none = set(known) - found.keys()
    assert not none, "these differences are none any more: remove them from the list"


@contextlib.contextmanager
def both(
    kind: str,
    cases: Mapping[str, Case],
    *,
    program: str,
    catalog: Path,
    directory: Path,
) -> Iterator[Both]:
    """Two clusters after all cases.

    Args:
        kind: The kind of the jobs.
        cases: The jobs.
        program: The release of training-operator: a directory of `hack/cluster/modules`.
        catalog: The catalog of images.
        directory: An empty one.
    """
    with contextlib.ExitStack() as stack:
        theirs = _started(directory / "theirs", catalog, stack)
        overlay = sources("github.com/kubeflow/training-operator", program)
        overlay = overlay / "manifests/overlays/standalone"
        name = "training-operator"
        installed(theirs, f"--kustomize={overlay}", namespace="kubeflow", deployment=name)
        found = Both(theirs, _started(directory / "ours", catalog, stack), kind)
        users = (found.theirs, found.ours)
        for user in users:
            for case, each in cases.items():
                user.create(found.manifest(case, each.spec))
        for user in users:
            for case, each in cases.items():
                if each.ends:
                    condition = f"--for=condition={each.ends}"
                    user.kubectl(
                        "wait", f"{kind.lower()}s.kubeflow.org/{case}", condition, "--timeout=120s"
                    )
        yield found
        for user in users:
            assert "Traceback" not in user.log()


def _started(directory: Path, catalog: Path, stack: contextlib.ExitStack) -> User:
    """Start a cluster of several nodes, which the requests of all cases fit."""
    directory.mkdir()
    user = User(directory, default_cache(), "pod,event")
    user.timeout = 600
    images = f"--images={catalog}"
    user.traincrew("up", "--nodes=4", images, f"--kubeconfig={user.kubeconfig}")
    stack.callback(user.traincrew, "down")
    return user


def observed(user: User, kind: str, name: str) -> Document:
    """What a user sees of a job that has come to rest.

    Without the condition ``Created``, which training-operator loses if the autoscaler writes first.
    """
    selected = ("-l", f"{LABEL}={name}")
    status = user.get(f"{kind.lower()}s.kubeflow.org", name).get("status", {})
    replica = status.get("replicaStatuses", {})
    events = user.get("event", "--field-selector", f"involvedObject.name={name}")["items"]
    events = [
        each
        for each in events
        if each["involvedObject"]["kind"] == kind
        and not each["message"].endswith("exited with code 0")
    ]
    return {
        "pods": {_name(each): _pod(each) for each in user.get("pod", *selected)["items"]},
        "services": {
            _name(each): _service(each) for each in user.get("service", *selected)["items"]
        },
        "autoscalers": {
            _name(each): each["spec"]
            for each in user.get("hpa")["items"]
            if each["spec"]["scaleTargetRef"]["name"] == name
        },
        "conditions": sorted(
            (each["type"], each["reason"])
            for each in status.get("conditions", [])
            if each["status"] == "True" and each["type"] != "Created"
        ),
        "messages": sorted(
            each["message"]
            for each in status.get("conditions", [])
            if each["status"] == "True" and each["type"] != "Created"
        ),
        "replicas": {
            role: {word: each.get(word, 0) for word in ("active", "succeeded", "failed")}
            for role, each in replica.items()
        },
        # Those that there are: of one type, training-operator may not come to write it.
        "selectors": {
            role: each["selector"] for role, each in replica.items() if "selector" in each
        },
        "events": sorted({(each["type"], each["reason"]) for each in events}),
        "component": sorted({each["source"]["component"] for each in events}),
    }


def _name(found: Document) -> str:
    return str(found["metadata"]["name"])


def _head(found: Document) -> Document:
    metadata = found["metadata"]
    owners = [
        {key: value for key, value in each.items() if key != "uid"}
        for each in metadata["ownerReferences"]
    ]
    return {"labels": metadata["labels"], "ownerReferences": owners}


def _pod(found: Document) -> Document:
    spec = found["spec"]
    notes = found["metadata"].get("annotations", {})
    return {
        **_head(found),
        "annotations": {key: notes[key] for key in notes if key.startswith("example.com/")},
        "restartPolicy": spec["restartPolicy"],
        "containers": [_container(each) for each in spec["containers"]],
        "initContainers": [_container(each) for each in spec.get("initContainers", [])],
    }


def _container(found: Document) -> Document:
    fields = ("name", "image", "command", "args", "ports", "resources", "imagePullPolicy")
    env = [each for each in found.get("env", []) if not each["name"].startswith(OURS)]
    return {**{name: found.get(name) for name in fields}, "env": env}


def _service(found: Document) -> Document:
    spec = found["spec"]
    ports = sorted((each.get("name", ""), each["port"]) for each in spec["ports"])
    return {**_head(found), "selector": spec["selector"], "ports": ports,
            "clusterIP": spec["clusterIP"]}  # fmt: skip
