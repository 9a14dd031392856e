"""The files of volumes that show API objects: configMap, secret, downwardAPI, projected. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.node.fields.downward import PodFacts, field_value, resource_value
from traincrew.local.node.fields.references import MissingReferenceError, Reference, Sources

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["File", "TokenRequest", "is_api_volume", "token_requests", "volume_files"]

Document = Mapping[str, Any]

_API_VOLUMES = ("configMap", "secret", "downwardAPI", "projected")
_TOKEN_SECONDS = 3600


class File(NamedTuple):
    """A file of a volume.

    Attributes:
        content: Its content.
        mode: Its permission bits.
        owner: The user it belongs to; -1 for the user of the node.
    """

    content: bytes
    mode: int
    owner: int = -1


class TokenRequest(NamedTuple):
    """A service account token a volume needs."""

    audience: str
    seconds: int


def is_api_volume(volume: Document) -> bool:
    """Return whether a volume shows API objects."""
    return any(volume.get(kind) is not None for kind in _API_VOLUMES)


def token_requests(volume: Document) -> Iterator[TokenRequest]:
    """Yield the tokens that `volume_files` needs."""
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("serviceAccountToken") is not None:
            yield _token(source["serviceAccountToken"])


def _token(source: Document) -> TokenRequest:
    return TokenRequest(
        source.get("audience", ""), int(source.get("expirationSeconds") or _TOKEN_SECONDS)
    )


def volume_files(
    facts: PodFacts, volume: Document, sources: Sources, tokens: Mapping[TokenRequest, str]
) -> dict[str, File]:
    """Return the files of a volume, by path relative to it.

    Args:
        facts: The pod.
        volume: An entry of `spec.volumes` for which `is_api_volume` holds.
        sources: The objects of `references.volume_references`.
        tokens: The tokens of `token_requests`.

    Raises:
        MissingReferenceError: An object or key is missing and not optional.
        FieldError: A field or resource reference is invalid.
    """
    if (config_map := volume.get("configMap")) is not None:
        reference = Reference("ConfigMap", config_map.get("name", ""))
        return _keys(config_map, sources, reference, _mode(config_map))
    if (secret := volume.get("secret")) is not None:
        reference = Reference("Secret", secret.get("secretName", ""))
        return _keys(secret, sources, reference, _mode(secret))
    if (downward := volume.get("downwardAPI")) is not None:
        return _downward(facts, downward, _mode(downward))
    projected = volume["projected"]
    mode = _mode(projected)
    files: dict[str, File] = {}
    for source in projected.get("sources") or ():
        if (inner := source.get("configMap")) is not None:
            reference = Reference("ConfigMap", inner.get("name", ""))
            files |= _keys(inner, sources, reference, mode)
        if (inner := source.get("secret")) is not None:
            reference = Reference("Secret", inner.get("name", ""))
            files |= _keys(inner, sources, reference, mode)
        if (inner := source.get("downwardAPI")) is not None:
            files |= _downward(facts, inner, mode)
        if (inner := source.get("serviceAccountToken")) is not None:
            files[inner["path"]] = _token_file(facts.spec, tokens[_token(inner)], mode)
    return files


def _token_file(spec: Document, token: str, mode: int) -> File:
    """Return the file of a token: of the pod's user, if it has one user or a group (KEP-1205).

    The rule of upstream's `collectData` (`pkg/volume/projected`).
    """
    user = _only_user(spec)
    own = user is not None or (spec.get("securityContext") or {}).get("fsGroup") is not None
    return File(token.encode(), 0o600 if own else mode, -1 if user is None else user)


def _only_user(spec: Document) -> int | None:
    """Return the user that all containers of a pod run as; None if they do not say, or differ."""
    pod = (spec.get("securityContext") or {}).get("runAsUser")
    users = {
        (container.get("securityContext") or {}).get("runAsUser", pod)
        for group in ("initContainers", "containers")
        for container in spec.get(group) or ()
    }
    return users.pop() if len(users) == 1 else None


def _mode(source: Document) -> int:
    mode = source.get("defaultMode")
    return 0o644 if mode is None else int(mode)


def _keys(
    source: Document, sources: Sources, reference: Reference, default_mode: int
) -> dict[str, File]:
    optional = bool(source.get("optional"))
    values = sources.values(reference, optional=optional)
    if values is None:
        return {}
    items = source.get("items")
    if not items:
        return {key: File(value, default_mode) for key, value in values.items()}
    files = {}
    for item in items:
        if item["key"] in values:
            mode = item.get("mode")
            files[item["path"]] = File(
                values[item["key"]], default_mode if mode is None else int(mode)
            )
        elif not optional:
            raise MissingReferenceError(
                f"{reference.kind.lower()} references non-existent config key: {item['key']}"
            )
    return files


def _downward(facts: PodFacts, source: Document, default_mode: int) -> dict[str, File]:
    files = {}
    for item in source.get("items") or ():
        if item.get("fieldRef") is not None:
            value = field_value(facts, item["fieldRef"]["fieldPath"])
        else:
            value = resource_value(facts, item.get("resourceFieldRef") or {}, None)
        mode = item.get("mode")
        files[item["path"]] = File(value.encode(), default_mode if mode is None else int(mode))
    return files
