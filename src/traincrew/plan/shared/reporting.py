"""What pods need to report the progress of their program: variables, a token, a CA certificate.

Names, paths and audience are those of Kubeflow Trainer (KEP-2779, ``pkg/runtime/framework/plugins/
trainjobstatus``), with the API group and the resource of the job itself. The CA certificate comes
from an annotation of the pod instead of a ConfigMap: docs/design/reported-progress.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.plan.shared.templates import podtemplate

if TYPE_CHECKING:
    from traincrew.api.meta import Owner

VARIABLE_URL = "KUBEFLOW_TRAINER_SERVER_URL"
VARIABLE_CA = "KUBEFLOW_TRAINER_SERVER_CA_CERT"
VARIABLE_TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 - a name
MOUNT = "/var/run/secrets/kubeflow/trainer"
VOLUME = "kubeflow-trainer-token"
CA_FILE = "ca.crt"
VARIABLES = frozenset((VARIABLE_URL, VARIABLE_CA, VARIABLE_TOKEN))
TOKEN_FILE = "token"  # noqa: S105 - a name
TOKEN_SECONDS = 3600
ANNOTATION_CA = "traincrew.dev/progress-ca"
"""Annotation of pods with the CA certificate of the endpoint (PEM)."""

Document = dict[str, Any]


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where the pods of a kind report their progress.

    Attributes:
        url: ``https://host:port`` of the operator.
        certificate: The CA certificate that signs for it (PEM).
        plural: Name of the kind in URLs.
    """

    url: str
    certificate: str
    plural: str


def audience(api_version: str, plural: str, namespace: str, name: str) -> str:
    """Return the audience of the tokens with which the pods of a job report."""
    return f"{api_version}/namespaces/{namespace}/{plural}/{name}/status"


def with_reporting(
    template: Document, endpoint: Endpoint | None, owner: Owner, container: int | None
) -> Document:
    """Let a container of a pod report the progress of the job.

    Nothing is added where a user has something of one of these names, or mounts something at the
    directory, above it or below it: then the program reports to somebody else.

    Args:
        template: The pod, or a template of it.
        endpoint: Where it reports; None for nowhere.
        owner: The job.
        container: Index of the container; None if there is none.
    """
    if endpoint is None or container is None or _is_taken(template, container):
        return template
    target = audience(owner.api_version, endpoint.plural, owner.namespace, owner.name)
    variables = {
        VARIABLE_URL: f"{endpoint.url}/apis/{target}",
        VARIABLE_CA: f"{MOUNT}/{CA_FILE}",
        VARIABLE_TOKEN: f"{MOUNT}/{TOKEN_FILE}",
    }
    containers = list(template["spec"]["containers"])
    equipped = podtemplate.add_env(containers[container], variables)
    mount = {"name": VOLUME, "mountPath": MOUNT, "readOnly": True}
    containers[container] = podtemplate.add_mounts(equipped, [mount])
    template = podtemplate.with_spec(template, containers=containers)
    template = podtemplate.with_volumes(template, [_volume(target)])
    return podtemplate.with_annotations(template, {ANNOTATION_CA: endpoint.certificate})


def _volume(target: str) -> Document:
    token = {"audience": target, "expirationSeconds": TOKEN_SECONDS, "path": TOKEN_FILE}
    certificate = {
        "path": CA_FILE,
        "fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION_CA}']"},
    }
    sources = [{"serviceAccountToken": token}, {"downwardAPI": {"items": [certificate]}}]
    return {"name": VOLUME, "projected": {"sources": sources}}


def _is_taken(template: Document, container: int) -> bool:
    """Return whether a user has something of a name or at a path of ours."""
    pod = template["spec"]
    found = pod["containers"][container]
    names = {entry.get("name") for entry in found.get("env") or []}
    paths = [entry.get("mountPath", "") for entry in found.get("volumeMounts") or []]
    return (
        any(entry.get("name") == VOLUME for entry in pod.get("volumes") or [])
        or not names.isdisjoint(VARIABLES)
        or any(overlaps(path) for path in paths)
        or ANNOTATION_CA in (template["metadata"].get("annotations") or {})
    )


def overlaps(path: str) -> bool:
    """Return whether a mount path is the directory of the token, or one is in the other."""
    theirs, ours = (f"{each.rstrip('/')}/" for each in (path, MOUNT))
    return theirs.startswith(ours) or ours.startswith(theirs)
