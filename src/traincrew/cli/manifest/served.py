"""Checks that the embedded cluster serves the kinds of manifests."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.documents import training_resources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traincrew.cli.manifest.documents import Document

_SIMILARITY = 0.75


class ServedKind(NamedTuple):
    """A kind in one API version; the group is empty for the core group."""

    group: str
    version: str
    name: str

    @property
    def api_version(self) -> str:
        """Group and version as in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version


def require_served(documents: Sequence[Document]) -> None:
    """Check that every object is of a kind that the cluster of a run serves.

    Raises:
        BadInput: An unknown kind; the message has its line and the kinds that are served.
    """
    kinds = _served(documents)
    known = {(kind.api_version, kind.name) for kind in kinds}
    unknown = [each for each in documents if (each.api_version, each.kind) not in known]
    if unknown:
        problems = dict.fromkeys(unknown_kind(document, kinds) for document in unknown)
        raise BadInput("\n".join([*problems, _supported_kinds()]))


def unknown_kind(document: Document, kinds: Sequence[ServedKind]) -> str:
    """Return the error for an unknown kind, with a suggestion."""
    group = document.api_version.rpartition("/")[0]
    text = f'there is no kind "{document.kind}" in "{document.api_version}"'
    if suggestion := _suggestion(document.kind, document.api_version, kinds):
        return f"{document.at('kind')}: {text}; did you mean {suggestion}?"
    of_group = {kind.name: None for kind in kinds if kind.group == group} if group else {}
    if of_group:
        text += f"; {group} has {', '.join(of_group)} here"
    return f"{document.at('kind')}: {text}"


def _suggestion(name: str, api_version: str, kinds: Sequence[ServedKind]) -> str:
    """Return what was probably meant, as it has to be written; empty if that is not clear."""
    group = api_version.rpartition("/")[0]
    same = [kind for kind in kinds if kind.name == name]
    if same:
        best = [kind for kind in same if kind.group == group] or same
        versions = dict.fromkeys(kind.api_version for kind in best)
        return " or ".join(f"apiVersion: {version}" for version in versions)
    here = {kind.name for kind in kinds if kind.api_version == api_version}
    everywhere = {kind.name for kind in kinds}
    for names in (here, everywhere):
        by_lower = {each.lower(): each for each in sorted(names)}
        near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_SIMILARITY)
        if not near:
            continue
        found = by_lower[near[0]]
        if names is here:
            return f"kind: {found}"
        versions = dict.fromkeys(kind.api_version for kind in kinds if kind.name == found)
        # In another API group, the kind is most likely a different one.
        if group and difflib.get_close_matches(
            api_version.lower(), [each.lower() for each in versions], n=1, cutoff=_SIMILARITY
        ):
            return f"kind: {found} of apiVersion: {next(iter(versions))}"
        if not group:
            return f"kind: {found} of apiVersion: {next(iter(versions))}"
    return ""


def _supported_kinds() -> str:
    trained = {f"{each.kind} ({each.api_version})": None for each in training_resources()}
    return (
        f"traincrew runs {', '.join(trained)}, Job (batch/v1) and Pod (v1), with objects of all "
        "built-in kinds of Kubernetes and of CustomResourceDefinitions in the same manifests; the "
        "operators of other kinds can be installed in a cluster of `traincrew up`"
    )


def _served(documents: Sequence[Document]) -> list[ServedKind]:
    from traincrew.api.kinds import KINDS
    from traincrew.local.apiserver.kinds.builtin import builtin_resources

    kinds = [
        ServedKind(each.group, each.version, each.kind)
        for each in builtin_resources()
        if "create" in each.verbs
    ]
    kinds += [ServedKind(each.group, each.version, each.kind) for each in training_resources()]
    referenced = [each for kind in KINDS for each in kind.referenced]
    kinds += [ServedKind(each.group, each.version, each.kind) for each in referenced]
    for document in documents:
        if document.kind == "CustomResourceDefinition":
            kinds += _defined(document.content.get("spec"))
    return kinds


def _defined(spec: Any) -> Iterator[ServedKind]:
    if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
        return
    for version in spec.get("versions") or ():
        if isinstance(version, dict) and version.get("served"):
            yield ServedKind(
                str(spec.get("group")), str(version.get("name")), str(spec["names"].get("kind"))
            )
