"""Checks what the values of kube-openmpi say of pods, which only the API of pods would refuse.

That would be later, in the status of the cluster, and without the key of the values.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.codesync import OBJECT_NAME
from traincrew.api.meta import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_REPOSITORY = re.compile(r"([a-zA-Z0-9.-]+(:\d+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*")
_TAG = re.compile(r"\w[\w.-]{0,127}(@sha256:[0-9a-f]{64})?", re.ASCII)
_PRIVATE = re.compile(r"\s*-----BEGIN [A-Z ]*PRIVATE KEY-----")
_PUBLIC = re.compile(r"\s*(ssh|ecdsa|sk)-\S+ \S+[^\n]*\s*")
_ROLES = ("mpiMaster", "mpiWorkers")
_RESOURCES = ("limits", "requests", "claims")
_CODE = {
    "name": "the name of the entry",
    "gitRepo": "the URL of a repository",
    "mountPath": "a directory of the containers",
}

Document = dict[str, Any]


def problems(values: Document) -> Iterator[Problem]:
    """Yield what is wrong in values of the right types."""
    yield from _image(values.get("image", {}))
    yield from _keys(values.get("sshKey", {}))
    for role in _ROLES:
        yield from _pod(role, values.get(role, {}))
    for index, code in enumerate(values.get("appCodesToSync", [])):
        for key, what in _CODE.items():
            if not code[key]:
                yield Problem(f"appCodesToSync[{index}].{key}", f"it is empty; write {what}")


def _image(image: Document) -> Iterator[Problem]:
    repository, tag = image.get("repository", ""), image.get("tag", "")
    if repository and not _REPOSITORY.fullmatch(repository):
        text = "expected a repository in lower case, such as registry.example.com/me/image"
        if re.search(r"[:@][^/]*$", repository):
            text += "; what follows the name belongs to image.tag"
        yield Problem("image.repository", text)
    if tag and not _TAG.fullmatch(tag):
        yield Problem("image.tag", "expected letters, digits, '_', '.' and '-' only")
    for index, secret in enumerate(image.get("pullSecrets") or ()):
        if not re.search(OBJECT_NAME, secret["name"]):
            text = "expected the name of a Secret: lower case letters, digits, '-' and '.'"
            yield Problem(f"image.pullSecrets[{index}].name", text)


def _keys(keys: Document) -> Iterator[Problem]:
    """Never with any part of a key."""
    private, public = keys.get("id_rsa"), keys.get("id_rsa_pub")
    if private and not _PRIVATE.match(private):
        text = "it is no private key, which begins with -----BEGIN … PRIVATE KEY-----"
        yield Problem("sshKey.id_rsa", f"{text}; write the contents of the file id_rsa")
    if public and not _PUBLIC.fullmatch(public):
        text = "it is no public key, which is one line such as 'ssh-rsa AAAA…'"
        yield Problem("sshKey.id_rsa_pub", f"{text}; write the contents of the file id_rsa.pub")


def _pod(role: str, pod: Document) -> Iterator[Problem]:
    for key in pod.get("resources") or {}:
        if key not in _RESOURCES:
            near = difflib.get_close_matches(key, _RESOURCES, n=1) or _RESOURCES[:1]
            text = f"a container has no such resources; write {role}.resources.{near[0]}"
            yield Problem(f"{role}.resources.{key}", text)
    for key, value in (pod.get("nodeSelector") or {}).items():
        if value is not None and not isinstance(value, str):
            text = "expected text; write it in quotes, because true and 1 are not text in YAML"
            yield Problem(f"{role}.nodeSelector.{key}", text)
    there = set()
    for index, volume in enumerate(pod.get("volumes") or ()):
        there.add(volume.get("name"))
        if not volume.get("name"):
            text = "it is required; write the name that volumeMounts use"
            yield Problem(f"{role}.volumes[{index}].name", text)
    for index, mount in enumerate(pod.get("volumeMounts") or ()):
        where = f"{role}.volumeMounts[{index}]"
        if not mount.get("mountPath"):
            text = "it is required; write a directory of the container"
            yield Problem(f"{where}.mountPath", text)
        if mount.get("name") not in there:
            text = f"there is no volume of this name in {role}.volumes; add it, or correct the name"
            yield Problem(f"{where}.name", text)
