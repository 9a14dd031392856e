"""How a write waits for admission webhooks although the verbs are synchronous.

A verb runs from its first read of the storage to its write without interruption. A write that may
match webhooks is first run as a trial: if any must be called, the verb raises a `Proposal` and
stores nothing; the webhooks are called, and the verb runs again with their answers.
An answer holds for one revision of the stored object; if the object has changed meanwhile, the
webhooks are called again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from traincrew.local.apiserver.values.codec import clone

if TYPE_CHECKING:
    from collections.abc import Hashable

    from traincrew.local.apiserver.values.documents import Document

__all__ = ["AdmissionAnswers", "Operation", "Phase", "Proposal"]

Phase = Literal["mutating", "validating"]
Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class Proposal(Exception):  # noqa: N818 - not an error
    """The intended write of a verb; raised where webhooks have to be called first.

    Attributes:
        phase: Which webhooks to call. Both, for a DELETE.
        operation: As in an AdmissionReview.
        new: The object as it would be stored; None for a DELETE; the options of a CONNECT.
        old: The stored object; None for a CREATE.
        state: The revision of the stored object, the key of the answers.
    """

    def __init__(
        self,
        phase: Phase,
        operation: Operation,
        new: Document | None,
        old: Document | None,
        state: Hashable,
    ) -> None:
        super().__init__(f"{phase} webhooks have to be called for {operation}")
        self.phase = phase
        self.operation = operation
        self.new = new
        self.old = old
        self.state = state


class AdmissionAnswers:
    """The answers that admission webhooks have given about one write so far.

    Attributes:
        dry_run: Whether the write is a dry run.
        warnings: From the webhooks, for the Warning headers of the response.
        rounds: How many times webhooks have been called.
    """

    def __init__(self) -> None:
        self.dry_run = False
        self.warnings: list[str] = []
        self.rounds = 0
        self._mutated: dict[Hashable, tuple[Document, bool]] = {}
        self._validated: set[Hashable] = set()

    def mutated(self, new: Document, old: Document | None, revision: int) -> tuple[Document, bool]:
        """Return the object after the mutating webhooks, and whether they have changed it.

        It is the object that they were sent: generated names and times are those of the first
        attempt.

        Raises:
            Proposal: They have not been called yet.
        """
        if (found := self._mutated.get(revision)) is None:
            raise Proposal("mutating", _operation(old), clone(new), old, revision)
        return clone(found[0]), found[1]

    def validate(self, new: Document, old: Document | None, revision: int) -> None:
        """Return if the validating webhooks have allowed the object.

        Raises:
            Proposal: They have not been called yet.
        """
        if revision not in self._validated:
            raise Proposal("validating", _operation(old), clone(new), old, revision)

    def delete(self, old: Document, key: tuple[str, str], revision: int) -> None:
        """Return if the webhooks have allowed the deletion of an object.

        Raises:
            Proposal: They have not been called yet.
        """
        if (key, revision) not in self._validated:
            raise Proposal("validating", "DELETE", None, old, (key, revision))

    def record_mutated(self, proposal: Proposal, document: Document) -> None:
        """Record the object as the mutating webhooks have left it."""
        self._mutated[proposal.state] = (document, document != proposal.new)

    def record_validated(self, proposal: Proposal) -> None:
        """Record that the webhooks have allowed a write."""
        self._validated.add(proposal.state)


def _operation(old: Document | None) -> Operation:
    return "CREATE" if old is None else "UPDATE"
