"""The one line that a user reads when an image cannot be pulled."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from traincrew.local.images.errors import ImageContentError, ImagePullError
from traincrew.local.images.oci.registry.failures import RegistryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.images.oci.registry.client import Repository
    from traincrew.local.images.oci.registry.settings import RegistrySettings
    from traincrew.local.images.reference import ImageReference

__all__ = ["Mirrored", "pull_error"]

Mirrored = tuple[str, str]
"""A mirror, and why the image did not come from there."""


def pull_error(
    reference: ImageReference,
    error: Exception,
    repository: Repository | None,
    settings: RegistrySettings,
    mirrors: Sequence[Mirrored] = (),
) -> ImagePullError:
    """Return the error for users.

    Args:
        reference: The image.
        error: What has happened: RegistryError, ImageContentError or OSError.
        repository: Where it was looked for; it knows the credentials.
        settings: Which file could have said otherwise.
        mirrors: Those that were asked before.
    """
    registry = reference.repository.partition("/")[0]
    failed = f'failed to pull image "{reference}" from {registry}'
    tried = "".join(f" (mirror {host}: {why})" for host, why in mirrors)
    if isinstance(error, ImageContentError):
        return ImagePullError("ErrImagePull", f"{failed}: {error}{tried}")
    if isinstance(error, OSError):
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        fix = ": free some disk space, or move the cache (TRAINCREW_CACHE)" if full else ""
        reason = error.strerror or str(error)
        return ImagePullError("ErrImagePull", f"{failed}: {reason}{fix}", permanent=False)
    assert isinstance(error, RegistryError)
    advice = _advice(error, registry, repository, settings)
    return ImagePullError(
        "ErrImagePull",
        f"{failed}: {error.message}{tried}. {advice}",
        permanent=not error.is_transient,
        unanswered=error.is_unanswered,
    )


def _advice(
    error: RegistryError,
    registry: str,
    repository: Repository | None,
    settings: RegistrySettings,
) -> str:
    where = str(settings.path or "registries.yaml")
    if error.kind in {"unauthorized", "denied"} and repository is not None:
        return _about_credentials(error, registry, repository)
    if error.kind == "missing":
        known = "" if repository is None else _who_asked(repository)
        return f"There is no such image or tag, or it may not be seen{known}: check the name"
    if error.kind == "certificate":
        return (
            f"If you trust it, name the file of its certificate: registries[{registry}].caFile "
            f"in {where}"
        )
    if error.kind == "busy":
        return "The registry limits how often it is asked: wait, or log in there to get more"
    if error.kind == "failing":
        return f"The registry has a problem: try again later, or set a mirror of it in {where}"
    if error.kind == "unreachable":
        return (
            "Check the name of the registry, the network and the proxy (HTTPS_PROXY, NO_PROXY); "
            f"mirrors are set in {where}; without a network, use `traincrew images import`"
        )
    return f"Check that {registry} is a registry of container images"


def _who_asked(repository: Repository) -> str:
    used = repository.credential
    if used is not None:
        return f" with the credentials of {used.origin}"
    return " without credentials" + (f" ({_looked(repository)})" if repository.looked else "")


def _about_credentials(error: RegistryError, registry: str, repository: Repository) -> str:
    again = f"docker login {registry}"
    elsewhere = "a Secret that imagePullSecrets of the pod names"
    if not repository.tried:
        looked = _looked(repository) or "nowhere"
        return (
            f"It wants credentials, and none were found ({looked}): log in, such as with "
            f"`{again}`, or put them into {elsewhere}"
        )
    origins = "; ".join(one.origin for one in repository.tried)
    broken = _looked(repository, only_broken=True)
    more = f" ({broken})" if broken else ""
    if error.expired:
        return (
            f"The credentials of {origins} have expired{more}: log in again (`{again}`), or renew "
            f"{elsewhere}"
        )
    if error.kind == "denied":
        return (
            f"The credentials of {origins} may not pull it{more}: check the name, ask its owner "
            f"for access, or use others"
        )
    return (
        f"It did not accept the credentials of {origins}{more}: log in again (`{again}`), or "
        f"correct {elsewhere}"
    )


def _looked(repository: Repository, *, only_broken: bool = False) -> str:
    return "; ".join(
        f"{one.place}: {one.result}" for one in repository.looked if one.broken or not only_broken
    )
