"""Rules for the security contexts of pods and containers.

Source: ``pkg/apis/core/validation/validation.go``: ``validatePodSpecSecurityContext``,
``ValidateSecurityContext``, ``validateWindowsHostProcessPod``, ``validateHostUsers``,
``validateOS``, ``validateLinux``, ``validateWindows``.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.shared.fields import one_of
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import subdomain_fault

from .volumes import descending_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["container_security", "host_process", "host_users", "operating_system", "pod_security"]

_MAX_ID = 2**31 - 1
_ID_RANGE = f"must be between 0 and {_MAX_ID}, inclusive"


def _identifier(found: list[Cause], value: Any, path: str) -> None:
    """Validate a user or group ID."""
    if value is not None and not 0 <= value <= _MAX_ID:
        found.append(why.invalid(path, value, _ID_RANGE))


def _containers(spec: Document, path: str) -> Iterator[tuple[str, Document]]:
    """Yield every container with its path, in upstream's order."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(items(spec, key)):
            yield f"{path}.{key}[{index}]", container


# --- pod ------------------------------------------------------------------------------------------


def pod_security(found: list[Cause], spec: Document, path: str) -> None:
    """Validate the security context of a pod.

    Args:
        found: extended in place.
        spec: of the pod.
        path: of the spec.
    """
    context, here = field(spec, "securityContext"), f"{path}.securityContext"
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        _identifier(found, context.get(key), f"{here}.{key}")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        _identifier(found, group, f"{here}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        found.append(why.invalid(f"{here}.shareProcessNamespace", value=True, detail=detail))
    _sysctls(found, spec, context, f"{here}.sysctls")
    one_of(found, context, "fsGroupChangePolicy", here, ("Always", "OnRootMismatch"))
    _seccomp_profile(found, context, here)
    _windows_options(found, context, here)
    _app_armor_profile(found, context, here)
    one_of(found, context, "supplementalGroupsPolicy", here, ("Merge", "Strict"))
    one_of(found, context, "seLinuxChangePolicy", here, ("Recursive",))


_SYSCTL = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_LENGTH = 253
_IPC = ("kernel.shm", "kernel.msg", "fs.mqueue.")


def _sysctls(found: list[Cause], spec: Document, context: Document, path: str) -> None:
    seen: set[str] = set()
    for index, sysctl in enumerate(items(context, "sysctls")):
        here, name = f"{path}[{index}].name", sysctl.get("name", "")
        if not name:
            found.append(why.required(here))
        elif len(name) > _SYSCTL_LENGTH or not re.fullmatch(_SYSCTL, name):
            detail = f"must have at most {_SYSCTL_LENGTH} characters and match regex ^{_SYSCTL}$"
            found.append(why.invalid(here, name, detail))
        elif name in seen:
            found.append(why.duplicate(here, name))
        seen.add(name)
        dotted = _dotted(name)
        of_ipc = dotted == "kernel.sem" or dotted.startswith(_IPC)
        if spec.get("hostNetwork") and dotted.startswith("net."):
            detail = "may not be specified when 'hostNetwork' is true"
            found.append(why.invalid(here, name, detail))
        elif spec.get("hostIPC") and of_ipc:
            found.append(why.invalid(here, name, "may not be specified when 'hostIPC' is true"))


def _dotted(name: str) -> str:
    """Return a sysctl name in dotted form; ``net/ipv4/conf/eth0.1`` is the other form."""
    first = re.search(r"[./]", name)
    if first is None or first[0] == ".":
        return name
    return name.translate({ord("/"): ".", ord("."): "/"})


def host_users(found: list[Cause], spec: Document, path: str) -> None:
    """Validate what a pod with its own user namespace cannot share with the host."""
    if spec.get("hostUsers") is not False:
        return
    detail = "when `hostUsers` is false"
    found.extend(
        why.forbidden(f"{path}.{shown}", detail)
        for key, shown in (
            ("hostNetwork", "hostNetwork"),
            ("hostPID", "HostPID"),
            ("hostIPC", "HostIPC"),
        )
        if spec.get(key)
    )
    found.extend(
        why.forbidden(f"{here}.volumeDevices", detail)
        for here, container in _containers(spec, path)
        if container.get("volumeDevices")
    )


# --- container ------------------------------------------------------------------------------------


def container_security(
    found: list[Cause], container: Document, path: str, *, host_users: bool
) -> None:
    """Validate the security context of a container.

    Args:
        found: extended in place.
        container: a container of any kind.
        path: of the container.
        host_users: whether the pod shares the host's user namespace.
    """
    context = container.get("securityContext")
    if context is None:
        return
    here = f"{path}.securityContext"
    for key in ("runAsUser", "runAsGroup"):
        _identifier(found, context.get(key), f"{here}.{key}")
    mount = context.get("procMount")
    one_of(found, context, "procMount", here, ("Default", "Unmasked"))
    if host_users and mount == "Unmasked":
        detail = "`hostUsers` must be false to use `Unmasked`"
        found.append(why.invalid(f"{here}.procMount", mount, detail))
    _seccomp_profile(found, context, here)
    if context.get("allowPrivilegeEscalation") is False:
        _escalation(found, context, here)
    _windows_options(found, context, here)
    _app_armor_profile(found, context, here)


def _escalation(found: list[Cause], context: Document, path: str) -> None:
    start = "cannot set `allowPrivilegeEscalation` to false and "
    shown = form("core.SecurityContext", context)
    if context.get("privileged"):
        found.append(why.invalid(path, shown, f"{start}`privileged` to true"))
    found.extend(
        why.invalid(path, shown, f"{start}`capabilities.Add` CAP_SYS_ADMIN")
        for capability in field(context, "capabilities").get("add") or ()
        if capability == "CAP_SYS_ADMIN"
    )


_PROFILE_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")


def _profile_type(found: list[Cause], profile: Document, path: str, named: str) -> None:
    kind = profile.get("type", "")
    if not kind:
        found.append(why.required(f"{path}.type", f"type is required when {named} is set"))
    elif kind not in _PROFILE_TYPES:
        found.append(why.not_supported(f"{path}.type", kind, _PROFILE_TYPES))


def _seccomp_profile(found: list[Cause], context: Document, path: str) -> None:
    profile = context.get("seccompProfile")
    if profile is None:
        return
    here, file = f"{path}.seccompProfile", profile.get("localhostProfile")
    _profile_type(found, profile, here, "seccompProfile")
    if profile.get("type") == "Localhost":
        if file is None:
            detail = "must be set when seccomp type is Localhost"
            found.append(why.required(f"{here}.localhostProfile", detail))
        else:
            descending_path(found, file, f"{here}.localhostProfile")
    elif file is not None:
        detail = "can only be set when seccomp type is Localhost"
        # Printed in field order, while plain maps are printed sorted.
        shown = OrderedDict(form("core.SeccompProfile", profile))
        found.append(why.invalid(f"{here}.localhostProfile", shown, detail))


_MAX_PROFILE_LENGTH = 4095


def _app_armor_profile(found: list[Cause], context: Document, path: str) -> None:
    profile = context.get("appArmorProfile")
    if profile is None:
        return
    here, name = f"{path}.appArmorProfile", profile.get("localhostProfile")
    place, kind = f"{here}.localhostProfile", profile.get("type", "")
    if kind == "Localhost":
        if name is None or not name:
            found.append(why.required(place, "must be set when AppArmor type is Localhost"))
        elif name.strip() != name:
            found.append(why.invalid(place, name, "must not be padded with whitespace"))
        if name is not None and len(name.encode()) > _MAX_PROFILE_LENGTH:
            found.append(why.too_long(place, _MAX_PROFILE_LENGTH))
    elif kind in _PROFILE_TYPES:
        if name is not None:
            detail = "can only be set when AppArmor type is Localhost"
            found.append(why.invalid(place, name, detail))
    else:
        _profile_type(found, profile, here, "appArmorProfile")


# --- windows --------------------------------------------------------------------------------------

_CREDENTIAL_KIB = 64
_MAX_DOMAIN_LENGTH, _MAX_USER_LENGTH = 256, 104
_NET_BIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_PART = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS = re.compile(rf"{_DNS_PART}(?:\.{_DNS_PART})*")
_NOT_IN_USER = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _windows_options(found: list[Cause], context: Document, path: str) -> None:
    options = context.get("windowsOptions")
    if options is None:
        return
    here = f"{path}.windowsOptions"
    name = options.get("gmsaCredentialSpecName")
    if name is not None and (fault := subdomain_fault(name)):
        found.append(why.invalid(f"{here}.gmsaCredentialSpecName", name, fault))
    credential = options.get("gmsaCredentialSpec")
    if credential is not None:
        place = f"{here}.gmsaCredentialSpec"
        if not credential:
            detail = "gmsaCredentialSpec cannot be an empty string"
            found.append(why.invalid(place, credential, detail))
        elif len(credential.encode()) > _CREDENTIAL_KIB * 1024:
            detail = f"gmsaCredentialSpec size must be under {_CREDENTIAL_KIB} KiB"
            found.append(why.invalid(place, credential, detail))
    user = options.get("runAsUserName")
    if user is not None:
        place = f"{here}.runAsUserName"
        found.extend(
            why.invalid(place, user, f"runAsUserName{fault}") for fault in _user_name_faults(user)
        )


def _user_name_faults(name: str) -> Iterator[str]:
    """Yield the errors of a Windows user name, with or without a domain."""
    if not name:
        yield " cannot be an empty string"
        return
    if _CONTROL.search(name):
        yield " cannot contain control characters"
        return
    if name.count("\\") > 1:
        yield " cannot contain more than one backslash"
        return
    domain, separator, user = name.rpartition("\\")
    if len(domain.encode()) >= _MAX_DOMAIN_LENGTH:
        yield f"'s Domain length must be under {_MAX_DOMAIN_LENGTH} characters"
    if separator and not (_NET_BIOS.fullmatch(domain) or _DNS.fullmatch(domain)):
        yield "'s Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "'s User cannot be empty"
    elif len(user.encode()) > _MAX_USER_LENGTH:
        yield f"'s User length must not be longer than {_MAX_USER_LENGTH} characters"
    if user and not user.strip(". "):
        yield "'s User cannot contain only periods or spaces"
    if _NOT_IN_USER.search(user):
        yield r"""'s User cannot contain the following characters: "/\:;|=,+*?<>@[]"""


def host_process(found: list[Cause], spec: Document, path: str) -> None:
    """Validate Windows HostProcess containers: either all containers are, or none."""
    of_pod = field(spec, "securityContext", "windowsOptions").get("hostProcess")
    total = privileged = 0
    for here, container in _containers(spec, path):
        total += 1
        own = field(container, "securityContext", "windowsOptions").get("hostProcess")
        if None not in (of_pod, own) and own != of_pod:
            shown = str(of_pod).lower()
            detail = f"pod hostProcess value must be identical if both are specified, was {shown}"
            place = f"{here}.securityContext.windowsOptions.hostProcess"
            found.append(why.invalid(place, own, detail))
        privileged += bool(of_pod if own is None else own)
    if not privileged:
        return
    if privileged != total:
        detail = (
            "If pod contains any hostProcess containers then all containers must be HostProcess "
            "containers"
        )
        found.append(why.invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        found.append(why.invalid(f"{path}.hostNetwork", value=False, detail=detail))


# Fields in the order in which upstream reports them, of the pod's context and of the spec.
_NOT_ON_WINDOWS_POD = (
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)
_NOT_ON_WINDOWS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_FLAGS = frozenset({"hostPID", "hostIPC"})


def operating_system(found: list[Cause], spec: Document, path: str) -> None:
    """Validate the OS of a pod, and the fields that must not be set for it."""
    system = spec.get("os")
    if system is None:
        return
    name = system.get("name", "")
    if not name:
        found.append(why.required(f"{path}.os.name"))
    elif name == "linux":
        _only_linux(found, spec, path)
    elif name == "windows":
        _only_windows(found, spec, path)
    else:
        found.append(why.not_supported(f"{path}.os", name, ("linux", "windows")))


def _only_linux(found: list[Cause], spec: Document, path: str) -> None:
    for here, document in ((path, spec), *_containers(spec, path)):
        if "windowsOptions" in field(document, "securityContext"):
            place = f"{here}.securityContext.windowsOptions"
            found.append(why.forbidden(place, "windows options cannot be set for a linux pod"))


def _only_windows(found: list[Cause], spec: Document, path: str) -> None:
    detail = "cannot be set for a windows pod"
    for place in _NOT_ON_WINDOWS_POD:
        _, _, key = place.rpartition(".")
        holder = field(spec, "securityContext") if key != place else spec
        value = holder.get(key)
        if value if key in _FLAGS else value is not None:
            found.append(why.forbidden(f"{path}.{place}", detail))
    for here, container in _containers(spec, path):
        context = field(container, "securityContext")
        found.extend(
            why.forbidden(f"{here}.securityContext.{key}", detail)
            for key in _NOT_ON_WINDOWS
            if context.get(key) is not None
        )
