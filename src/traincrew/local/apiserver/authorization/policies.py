"""The stored Roles and bindings, indexed by who they are about.

The index follows committed changes, so an authorization reads no stored object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traincrew.local.apiserver.values.causes import quote
from traincrew.local.apiserver.values.documents import field, items

from .rules import Rule, rules_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traincrew.local.apiserver.storage import Change, Entry, Key, Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["Granted", "MissingRoleError", "Policies"]

_GROUP = "rbac.authorization.k8s.io"
_ROLES = {f"roles.{_GROUP}": "Role", f"clusterroles.{_GROUP}": "ClusterRole"}
_BINDINGS = frozenset({f"rolebindings.{_GROUP}", f"clusterrolebindings.{_GROUP}"})
_MAX_CACHED = 1024

Subject = tuple[str, str]  # kind and name; ServiceAccounts are users


class MissingRoleError(Exception):
    """A binding refers to a Role that does not exist; the message is upstream's."""

    def __init__(self, resource: str, name: str) -> None:
        super().__init__(f"{resource}.{_GROUP} {quote(name)} not found")


class Granted(NamedTuple):
    """What one binding grants to one subject.

    Attributes:
        source: the binding, as messages name it.
        rules: the rules of its Role.
        error: why they are unknown; empty if they are not.
        role: name of the Role.
    """

    source: str
    rules: tuple[Rule, ...]
    error: str
    role: str


class _Binding(NamedTuple):
    namespace: str
    role: tuple[str, str]  # kind and name
    subjects: tuple[tuple[Subject, str], ...]
    source: str


class Policies:
    """Knows which rules apply to whom.

    Args:
        storage: holds Roles and bindings.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._roles: dict[tuple[str, str, str], tuple[Rule, ...]] = {}
        self._bindings: dict[Key, _Binding] = {}
        self._by_subject: dict[Subject, dict[Key, str]] = {}
        self._cached: dict[tuple[str, tuple[str, ...], str], tuple[Granted, ...]] = {}

    def start(self) -> None:
        """Read what is stored, and follow changes from now on."""
        for identifier in (*_ROLES, *_BINDINGS):
            for entry in self._storage.scan(identifier):
                self._update(identifier, entry.key, entry)
        self._storage.subscribe(self._on_changes)

    def stop(self) -> None:
        """Stop following changes."""
        self._storage.unsubscribe(self._on_changes)

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.resource in _ROLES or change.resource in _BINDINGS:
                self._update(change.resource, change.key, change.new)

    def _update(self, identifier: str, key: Key, entry: Entry | None) -> None:
        self._cached.clear()
        if (kind := _ROLES.get(identifier)) is not None:
            if entry is None:
                self._roles.pop((kind, *key), None)
            else:
                self._roles[kind, *key] = rules_of(entry.obj)
            return
        before = self._bindings.pop(key, None)
        if before is not None:
            for subject, _ in before.subjects:
                self._by_subject[subject].pop(key, None)
                if not self._by_subject[subject]:
                    del self._by_subject[subject]
        if entry is not None:
            binding = self._bindings[key] = _binding(key, entry.obj)
            for subject, source in binding.subjects:
                self._by_subject.setdefault(subject, {}).setdefault(key, source)

    # -- answers

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...]:
        """Return the rules of a Role of a namespace, or of a ClusterRole.

        Raises:
            MissingRoleError: it does not exist.
        """
        found = self._roles.get((kind, namespace if kind == "Role" else "", name))
        if found is None:
            raise MissingRoleError(kind.lower(), name)
        return found

    def granted(self, username: str, groups: Iterable[str], namespace: str) -> tuple[Granted, ...]:
        """Return what bindings grant to a user: cluster-wide, and in a namespace if it is given."""
        identity = (username, tuple(groups), namespace)
        found = self._cached.get(identity)
        if found is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            found = self._cached[identity] = tuple(self._find(*identity))
        return found

    def _find(self, username: str, groups: tuple[str, ...], namespace: str) -> Iterator[Granted]:
        sources: dict[Key, str] = {}
        for subject in (("User", username), *(("Group", group) for group in groups)):
            for key, source in self._by_subject.get(subject, {}).items():
                if key[0] in {"", namespace}:
                    sources.setdefault(key, source)
        for key in sorted(sources):  # those of the cluster first
            binding = self._bindings[key]
            try:
                rules = self.role_rules(*binding.role, namespace=binding.namespace)
            except MissingRoleError as error:
                yield Granted("", (), str(error), binding.role[1])
            else:
                source = f"{binding.source} to {sources[key]}"
                yield Granted(source, rules, "", binding.role[1])


def _binding(key: Key, document: Document) -> _Binding:
    namespace, name = key
    reference = field(document, "roleRef")
    role = (str(reference.get("kind")), str(reference.get("name")))
    kind, shown = (
        ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    )
    source = f"{kind} {quote(shown)} of {role[0]} {quote(role[1])}"
    return _Binding(namespace, role, tuple(_subjects(document, namespace)), source)


def _subjects(document: Document, namespace: str) -> Iterator[tuple[Subject, str]]:
    """Yield the subjects of a binding, each with how messages name it."""
    for subject in items(document, "subjects"):
        kind, name = subject.get("kind"), str(subject.get("name", ""))
        if kind in {"User", "Group"}:
            yield (kind, name), f"{kind} {quote(name)}"
        elif kind == "ServiceAccount" and (where := subject.get("namespace") or namespace):
            user = f"system:serviceaccount:{where}:{name}"
            yield ("User", user), f"{kind} {quote(f'{name}/{where}')}"
