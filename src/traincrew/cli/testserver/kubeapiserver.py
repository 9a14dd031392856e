"""The program `kube-apiserver` of a directory for envtest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .etcd import STATE_PATH, loopback_port
from .flags import FlagError, is_true
from .programs import Program, main, until_asked_to_end, warn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from ipaddress import IPv4Network

    from traincrew.local.authority import Certificate

    from .flags import Flags

__all__ = ["KUBE_APISERVER", "Settings", "read"]

_NAME = "kube-apiserver"
_ADDRESS = "127.0.0.1"
_BOUND = {_ADDRESS, "localhost", "0.0.0.0"}  # noqa: S104 - only the loopback interface is bound
_ETCD_SECONDS = 20.0
_ASK_AGAIN_SECONDS = 0.05
_MAX_ANSWER = 65536

_ADMISSION = frozenset(
    {
        "CertificateApproval",
        "CertificateSigning",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "DefaultStorageClass",
        "DefaultTolerationSeconds",
        "LimitRanger",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionWebhook",
        "NamespaceLifecycle",
        "PersistentVolumeClaimResize",
        "PodSecurity",
        "Priority",
        "ResourceQuota",
        "RuntimeClass",
        "StorageObjectInUseProtection",
        "TaintNodesByCondition",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
    }
)
"""Plugins that upstream has on by default: to enable one changes nothing."""


class Settings(NamedTuple):
    """What the flags say.

    Attributes:
        etcd: Port of the etcd.
        port: Port to listen on.
        certificate: Serving certificate; None to make one.
        client_authority: File with the CAs of client certificates.
        service_network: Range of cluster IPs.
        anonymous: Whether there are anonymous users.
        service_accounts: Whether pods get an account and its token.
        notes: What has no effect here, for standard error.
    """

    etcd: int
    port: int
    certificate: Certificate | None
    client_authority: Path | None
    service_network: IPv4Network | None
    anonymous: bool
    service_accounts: bool
    notes: list[str]


def read(flags: Flags) -> Settings:
    """Return what the flags say.

    Raises:
        FlagError: One is missing or cannot be used.
    """
    missing = [text for name, text in _REQUIRED.items() if not flags.last(name)]
    if missing:
        raise FlagError(f"[{', '.join(missing)}]" if len(missing) > 1 else missing[0])
    for name in ("service-account-key-file", "service-account-signing-key-file"):
        for value in flags.values.get(name, ()):
            _file(name, value)
    authority = flags.last("client-ca-file")
    etcd = flags.last("etcd-servers").split(",")[0]
    return Settings(
        loopback_port("etcd-servers", etcd),
        _port(flags.last("secure-port", "6443")),
        _certificate(flags),
        _file("client-ca-file", authority) if authority else None,
        _network(flags.last("service-cluster-ip-range")),
        is_true("anonymous-auth", flags.last("anonymous-auth", "true")),
        "ServiceAccount" not in _listed(flags, "disable-admission-plugins"),
        list(_notes(flags)),
    )


def _notes(flags: Flags) -> Iterator[str]:
    """Yield what flags ask for and this server does not do."""
    if (address := flags.last("bind-address", _ADDRESS)) not in _BOUND:
        yield f"--bind-address={address}: only {_ADDRESS} is served"
    if others := _listed(flags, "authorization-mode") - {"Node", "RBAC"}:
        yield f"--authorization-mode: {_joined(others)} has no effect; Roles decide"
    if others := _listed(flags, "enable-admission-plugins") - _ADMISSION:
        yield f"--enable-admission-plugins: {_joined(others)} has no effect"
    if others := _listed(flags, "disable-admission-plugins") & _SWITCHED:
        yield f"--disable-admission-plugins: {_joined(others)} stays on"


def _listed(flags: Flags, name: str) -> set[str]:
    found = flags.values.get(name, ())
    return {each for value in found for each in value.split(",") if each}


def _joined(names: set[str]) -> str:
    return ", ".join(sorted(names))


_SWITCHED = {
    "LimitRanger",
    "MutatingAdmissionWebhook",
    "NamespaceLifecycle",
    "ResourceQuota",
    "ValidatingAdmissionWebhook",
}
"""Plugins that this server has, and cannot switch off."""

_REQUIRED = {
    "etcd-servers": "--etcd-servers must be specified",
    "service-account-issuer": "service-account-issuer is a required flag",
    "service-account-signing-key-file": "--service-account-signing-key-file is a required flag",
}


def _file(flag: str, value: str) -> Path:
    path = Path(value).absolute()
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise FlagError(f"--{flag}: {value}: {(error.strerror or str(error)).lower()}") from None


def _port(value: str) -> int:
    if value.isascii() and value.isdecimal() and 0 < int(value) < 65536:
        return int(value)
    raise FlagError(f"--secure-port: {value[:20]!r} must be between 1 and 65535, inclusive")


def _network(value: str) -> IPv4Network | None:
    from ipaddress import IPv4Network

    first = value.partition(",")[0]  # the second one is for dual-stack
    if not first:
        return None
    try:
        network = IPv4Network(first, strict=False)
    except ValueError as error:
        raise FlagError(f"--service-cluster-ip-range: {error}") from None
    if network.num_addresses < 4:
        raise FlagError(f"--service-cluster-ip-range: {first} has less than four addresses")
    return network


def _certificate(flags: Flags) -> Certificate | None:
    """Return the certificate that flags name, or that is in ``--cert-dir``, as upstream."""
    from traincrew.local.authority import Certificate

    names = ("tls-cert-file", "tls-private-key-file")
    given = [flags.last(name) for name in names]
    if any(given):
        if not all(given):
            raise FlagError(f"--{names[0]} and --{names[1]} must be specified together")
        certificate, key = (_file(*each) for each in zip(names, given, strict=True))
        return Certificate(certificate, key, certificate)
    directory = Path(flags.last("cert-dir", "/var/run/kubernetes")).absolute()
    certificate, key = directory / "apiserver.crt", directory / "apiserver.key"
    if certificate.is_file() and key.is_file():
        return Certificate(certificate, key, certificate)
    return None


async def _state_directory(port: int) -> Path:
    """Ask the etcd for the directory of the objects, until it answers.

    Raises:
        FlagError: It does not, it is another etcd, or another user could write its directory.
    """
    import asyncio

    from traincrew.local.directories import check_trusted

    loop = asyncio.get_running_loop()
    deadline = loop.time() + _ETCD_SECONDS
    where = f"--etcd-servers: http://{_ADDRESS}:{port}"
    while True:
        try:
            answer = await asyncio.to_thread(_ask, port)
            break
        except OSError as error:
            if loop.time() > deadline:
                raise FlagError(f"{where} does not answer: {error}") from None
        await asyncio.sleep(_ASK_AGAIN_SECONDS)
    directory = answer.get("directory") if isinstance(answer, dict) else None
    if not isinstance(directory, str) or not directory.startswith("/"):
        raise FlagError(
            f"{where} is not the etcd of this directory, and this kube-apiserver keeps nothing in"
            " any other: start the etcd beside it"
        )
    try:
        check_trusted(Path(directory))
    except PermissionError as error:
        raise FlagError(f"{where}: {error}") from None
    return Path(directory)


def _ask(port: int) -> Any:
    """Return the answer of the etcd, a JSON value; None if it has no such path."""
    import http.client
    import json

    connection = http.client.HTTPConnection(_ADDRESS, port, timeout=5)
    try:
        connection.request("GET", STATE_PATH)
        response = connection.getresponse()
        body = response.read(_MAX_ANSWER)
        return json.loads(body) if response.status == 200 else None
    except (http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


async def _serve(flags: Flags) -> None:
    import ssl

    from traincrew.local.apiserver.storage import StorageError
    from traincrew.local.standalone import StandaloneOptions, StandaloneServer
    from traincrew.local.statelock import StateInUseError

    settings = read(flags)
    for note in settings.notes:
        warn(_NAME, note)
    server = StandaloneServer(
        StandaloneOptions(
            directory=await _state_directory(settings.etcd),
            port=settings.port,
            certificate=settings.certificate,
            client_authority=settings.client_authority,
            service_network=settings.service_network,
            anonymous=settings.anonymous,
            service_accounts=settings.service_accounts,
        )
    )
    try:
        await server.start()
    except (StateInUseError, StorageError) as error:
        raise FlagError(str(error)) from None
    except OSError as error:
        # Without a path, it is one of the certificates that TLS cannot use.
        tls = "--tls-cert-file, --tls-private-key-file or --client-ca-file cannot be used: "
        raise FlagError(f"{tls if isinstance(error, ssl.SSLError) else ''}{error}") from None
    try:
        warn(_NAME, f"serving securely on {_ADDRESS}:{settings.port}")
        await until_asked_to_end()
    finally:
        await server.stop()


_QUIET = (
    "advertise-address",
    "api-audiences",
    "default-watch-cache-size",
    "etcd-prefix",
    "event-ttl",
    "external-hostname",
    "log-flush-frequency",
    "logging-format",
    "max-mutating-requests-inflight",
    "max-requests-inflight",
    "min-request-timeout",
    "request-timeout",
    "service-node-port-range",
    "shutdown-delay-duration",
    "storage-backend",
    "storage-media-type",
    "v",
    "vmodule",
    "watch-cache-sizes",
)

KUBE_APISERVER = Program(
    _NAME,
    "traincrew's API server with the flags of kube-apiserver, for tests.",
    {
        "authorization-mode": "RBAC and Node",
        "bind-address": "only the loopback interface is served",
        "cert-dir": "has apiserver.crt and apiserver.key, unless --tls-cert-file is given",
        "client-ca-file": "CAs of client certificates: CN is the user, O the groups",
        "disable-admission-plugins": "ServiceAccount; others are named",
        "enable-admission-plugins": "those that upstream has by default; others are named",
        "etcd-servers": "the etcd beside this program: http://127.0.0.1:PORT",
        "secure-port": "port of the API (6443)",
        "service-account-issuer": "required; tokens keep the issuer of this server",
        "service-account-key-file": "has to exist; tokens are signed with a key of this server",
        "service-account-signing-key-file": "required; likewise",
        "service-cluster-ip-range": "range of cluster IPs (IPv4)",
        "tls-cert-file": "serving certificate",
        "tls-private-key-file": "its key",
        **dict.fromkeys(_QUIET),
    },
    {
        "allow-privileged": None,
        "anonymous-auth": "requests without credentials are of system:anonymous (true)",
        "enable-bootstrap-token-auth": None,
        "enable-priority-and-fairness": None,
        "profiling": None,
        "watch-cache": None,
    },
    _serve,
)

if __name__ == "__main__":
    sys.exit(main(KUBE_APISERVER))
