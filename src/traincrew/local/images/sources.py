"""Which of several sources an image name stands for, and what is used of them. Pure.

The one rule: the user's own catalogs, an image that is stored on this machine, the shipped catalog,
a registry.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["ANNOTATION", "Choice", "Source", "choose", "may_use_stored"]

ANNOTATION = "traincrew.dev/image-source"
"""Annotation of a pod with the `Source` of its images."""


class Source(StrEnum):
    """Where images may come from."""

    AUTO = "auto"
    """By the rule."""
    ENVIRONMENT = "environment"
    """Catalogs only."""
    IMAGE = "image"
    """Container images only."""


class Choice(StrEnum):
    """What an image name stands for."""

    ENVIRONMENT = "environment"
    STORED = "stored"
    REGISTRY = "registry"


def choose(source: Source, *, own: bool, stored: bool, shipped: bool) -> Choice | None:
    """Return what an image name stands for; None if nothing may.

    Args:
        source: What is allowed.
        own: A catalog of the user has it.
        stored: It is stored on this machine: pulled or imported before.
        shipped: The shipped catalog has it.
    """
    if source is Source.ENVIRONMENT:
        return Choice.ENVIRONMENT if own or shipped else None
    if source is Source.AUTO and own:
        return Choice.ENVIRONMENT
    if stored:
        return Choice.STORED
    if source is Source.AUTO and shipped:
        return Choice.ENVIRONMENT
    return Choice.REGISTRY


def may_use_stored(*, unanswered: bool, imported: bool) -> bool:
    """Return whether a stored image may stand in for the one that `Always` failed to get.

    A registry that does not answer says nothing against the stored image: so it runs offline. One
    that refuses the credentials, or lacks the tag, is right, as for the kubelet; but of an image
    that was imported it need not know.

    Args:
        unanswered: No registry has said anything about the image.
        imported: The stored image is from an archive, not from a registry.
    """
    return unanswered or imported
