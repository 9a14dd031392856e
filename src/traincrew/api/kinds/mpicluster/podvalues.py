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

# The chart has the same patterns and texts: patterns mean the same in Python and in Go.
REPOSITORY = r"^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9._-]+(/[a-z0-9._-]+)*$"
TAG = r"^[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}(@sha256:[0-9a-f]{64})?$"
PRIVATE_KEY = r"^\s*-----BEGIN [A-Z ]*PRIVATE KEY-----"
PUBLIC_KEY = r"^\s*(ssh|ecdsa|sk)-\S+ \S+[^\n]*\s*$"
HAS_TAG = r"[:@][^/]*$"
ROLES = ("mpiMaster", "mpiWorkers")
RESOURCES = ("limits", "requests", "claims")

WRONG_REPOSITORY = "expected a repository in lower case, such as registry.example.com/me/image"
TAG_ELSEWHERE = "; what follows the name belongs to image.tag"
WRONG_TAG = "expected letters, digits, '_', '.' and '-' only"
WRONG_PULL_NAME = "expected the name of a Secret: lower case letters, digits, '-' and '.'"
NO_PRIVATE_KEY = (
    "it is no private key, which begins with -----BEGIN … PRIVATE KEY-----; write the contents of"
    " the file id_rsa"
)
NO_PUBLIC_KEY = (
    "it is no public key, which is one line such as 'ssh-rsa AAAA…'; write the contents of the"
    " file id_rsa.pub"
)
NOT_TEXT = "expected text; write it in quotes, because true and 1 are not text in YAML"
NO_VOLUME_NAME = "it is required; write the name that volumeMounts use"
NO_MOUNT_PATH = "it is required; write a directory of the container"
CODE = {
    "name": "the name of the entry",
    "gitRepo": "the URL of a repository",
    "mountPath": "a directory of the containers",
}

Document = dict[str, Any]


def problems(values: Document) -> Iterator[Problem]:
    """Yield what is wrong in values of the right types."""
    yield from _image(values.get("image", {}))
    yield from _keys(values.get("sshKey", {}))
    for role in ROLES:
        yield from _pod(role, values.get(role, {}))
    for index, code in enumerate(values.get("appCodesToSync", [])):
        for key, what in CODE.items():
            if not code[key]:
                yield Problem(f"appCodesToSync[{index}].{key}", f"it is empty; write {what}")


def _image(image: Document) -> Iterator[Problem]:
    repository, tag = image.get("repository", ""), image.get("tag", "")
    if repository and not re.fullmatch(REPOSITORY, repository):
        more = TAG_ELSEWHERE if re.search(HAS_TAG, repository) else ""
        yield Problem("image.repository", WRONG_REPOSITORY + more)
    if tag and not re.fullmatch(TAG, tag):
        yield Problem("image.tag", WRONG_TAG)
    for index, secret in enumerate(image.get("pullSecrets") or ()):
        if not re.search(OBJECT_NAME, secret["name"]):
            yield Problem(f"image.pullSecrets[{index}].name", WRONG_PULL_NAME)


def _keys(keys: Document) -> Iterator[Problem]:
    """Never with any part of a key."""
    private, public = keys.get("id_rsa"), keys.get("id_rsa_pub")
    if private and not re.search(PRIVATE_KEY, private):
        yield Problem("sshKey.id_rsa", NO_PRIVATE_KEY)
    if public and not re.fullmatch(PUBLIC_KEY, public):
        yield Problem("sshKey.id_rsa_pub", NO_PUBLIC_KEY)


def _pod(role: str, pod: Document) -> Iterator[Problem]:
    for key in pod.get("resources") or {}:
        if key not in RESOURCES:
            near = difflib.get_close_matches(key, RESOURCES, n=1) or RESOURCES[:1]
            text = f"a container has no such resources; write {role}.resources.{near[0]}"
            yield Problem(f"{role}.resources.{key}", text)
    for key, value in (pod.get("nodeSelector") or {}).items():
        if value is not None and not isinstance(value, str):
            yield Problem(f"{role}.nodeSelector.{key}", NOT_TEXT)
    there = set()
    for index, volume in enumerate(pod.get("volumes") or ()):
        there.add(volume.get("name"))
        if not volume.get("name"):
            yield Problem(f"{role}.volumes[{index}].name", NO_VOLUME_NAME)
    for index, mount in enumerate(pod.get("volumeMounts") or ()):
        where = f"{role}.volumeMounts[{index}]"
        if not mount.get("mountPath"):
            yield Problem(f"{where}.mountPath", NO_MOUNT_PATH)
        if mount.get("name") not in there:
            text = f"there is no volume of this name in {role}.volumes; add it, or correct the name"
            yield Problem(f"{where}.name", text)
