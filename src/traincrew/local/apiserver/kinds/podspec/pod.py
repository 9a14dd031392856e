"""Rules for pods and pod templates (``pkg/apis/core/validation/validation.go``)."""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.shared.fields import one_of
from traincrew.local.apiserver.kinds.shared.meta import annotation_rules, label_selector, labels
from traincrew.local.apiserver.schema.unversioned import difference
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.codec import clone
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import (
    label_fault,
    label_value_fault,
    qualified_name_fault,
    qualified_name_faults,
    subdomain_fault,
)

from .affinity import affinity_rules
from .containers import containers
from .security import host_process, host_users, operating_system, pod_security
from .volumes import volumes

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["pod", "pod_spec", "pod_template", "pod_update"]

_MAX_INT32 = 2**31 - 1


def _label(found: list[Cause], document: Document, key: str, path: str) -> None:
    value = document.get(key)
    if value:
        fault = label_fault(value)
        if fault:
            found.append(why.invalid(f"{path}.{key}", value, fault))


def _subdomain(found: list[Cause], document: Document, key: str, path: str) -> None:
    value = document.get(key)
    if value:
        fault = subdomain_fault(value)
        if fault:
            found.append(why.invalid(f"{path}.{key}", value, fault))


def _address(found: list[Cause], value: str, path: str) -> None:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
        found.append(why.invalid(path, value, detail))


_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")


def _tolerations(found: list[Cause], spec: Document, path: str) -> None:
    for index, toleration in enumerate(items(spec, "tolerations")):
        here = f"{path}.tolerations[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        effect, value = toleration.get("effect", ""), toleration.get("value", "")
        if key:
            fault = qualified_name_fault(key)
            if fault:
                found.append(why.invalid(f"{here}.key", key, fault))
        elif operator != "Exists":
            detail = (
                "operator must be Exists when `key` is empty, which means"
                ' "match all values and all keys"'
            )
            found.append(why.invalid(f"{here}.operator", operator, detail))
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.append(why.invalid(f"{here}.effect", effect, detail))
        if operator in ("", "Equal"):
            fault = label_value_fault(value)
            if fault:
                found.append(why.invalid(f"{here}.operator", value, fault))
        elif operator == "Exists":
            if value:
                detail = "value must be empty when `operator` is 'Exists'"
                found.append(why.invalid(f"{here}.operator", value, detail))
        else:
            found.append(why.not_supported(f"{here}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in _EFFECTS:
            found.append(why.not_supported(f"{here}.effect", effect, _EFFECTS))


def _dns(found: list[Cause], spec: Document, path: str) -> None:
    policies = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
    one_of(found, spec, "dnsPolicy", path, policies)
    config = spec.get("dnsConfig")
    here = f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            detail = "must provide `dnsConfig` when `dnsPolicy` is None"
            found.append(why.required(here, detail))
        elif not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            found.append(why.required(f"{here}.nameservers", detail))
    if config is None:
        return
    servers = config.get("nameservers") or []
    if len(servers) > 3:
        detail = "must not have more than 3 nameservers"
        found.append(why.invalid(f"{here}.nameservers", servers, detail))
    for index, server in enumerate(servers):
        _address(found, server, f"{here}.nameservers[{index}]")
    searches = config.get("searches") or []
    if len(searches) > 32:
        detail = "must not have more than 32 search paths"
        found.append(why.invalid(f"{here}.searches", searches, detail))
    for index, option in enumerate(items(config, "options")):
        if not option.get("name"):
            found.append(why.required(f"{here}.options[{index}]", "must not be empty"))


def _spread(found: list[Cause], spec: Document, path: str) -> None:
    constraints = list(items(spec, "topologySpreadConstraints"))
    kinds = [(each.get("topologyKey", ""), each.get("whenUnsatisfiable")) for each in constraints]
    later = Counter(kinds)
    for index, constraint in enumerate(constraints):
        here = f"{path}.topologySpreadConstraints[{index}]"
        skew = constraint.get("maxSkew", 0)
        if skew <= 0:
            found.append(why.invalid(f"{here}.maxSkew", skew, "must be greater than zero"))
        key, action = kinds[index]
        if not key:
            found.append(why.required(f"{here}.topologyKey", "can not be empty"))
        supported = ("DoNotSchedule", "ScheduleAnyway")
        one_of(found, constraint, "whenUnsatisfiable", here, supported)
        later[kinds[index]] -= 1
        if later[kinds[index]]:
            both = f"{here}.{{topologyKey, whenUnsatisfiable}}"
            found.append(why.duplicate(both, f"{{{key}, {action}}}"))
        _min_domains(found, constraint, here)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            one_of(found, constraint, policy, here, ("Honor", "Ignore"))
        _match_label_keys(found, constraint, here)
        label_selector(found, constraint.get("labelSelector"), f"{here}.labelSelector")


def _min_domains(found: list[Cause], constraint: Document, path: str) -> None:
    fewest, action = constraint.get("minDomains"), constraint.get("whenUnsatisfiable")
    if fewest is None:
        return
    if fewest <= 0:
        found.append(why.invalid(f"{path}.minDomains", fewest, "must be greater than zero"))
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        found.append(why.invalid(f"{path}.minDomains", fewest, detail))


def _match_label_keys(found: list[Cause], constraint: Document, path: str) -> None:
    keys = constraint.get("matchLabelKeys") or ()
    if keys and constraint.get("labelSelector") is None:
        detail = "must not be specified when labelSelector is not set"
        found.append(why.forbidden(f"{path}.matchLabelKeys", detail))
        return
    for index, key in enumerate(keys):
        here = f"{path}.matchLabelKeys[{index}]"
        found += [why.invalid(here, key, fault) for fault in qualified_name_faults(key)]


def _gates(found: list[Cause], spec: Document, path: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(items(spec, "schedulingGates")):
        here, name = f"{path}.schedulingGates[{index}]", gate.get("name", "")
        fault = qualified_name_fault(name)
        if fault:
            found.append(why.invalid(here, name, fault))
        if name in seen:
            found.append(why.duplicate(here, name))
        seen.add(name)


def _group(found: list[Cause], spec: Document, path: str) -> None:
    here = f"{path}.schedulingGroup.podGroupName"
    name = (spec["schedulingGroup"] or {}).get("podGroupName")
    if name is None:
        found.append(why.invalid(here, None, "must specify one of: `podGroupName`"))
    elif fault := subdomain_fault(name):
        found.append(why.invalid(here, name, fault))


def _host_aliases(found: list[Cause], spec: Document, path: str) -> None:
    for index, alias in enumerate(items(spec, "hostAliases")):
        here = f"{path}.hostAliases[{index}]"
        _address(found, alias.get("ip", ""), f"{here}.ip")
        for position, hostname in enumerate(alias.get("hostnames") or ()):
            fault = subdomain_fault(hostname)
            if fault:
                found.append(why.invalid(f"{here}.hostnames[{position}]", hostname, fault))


def _readiness_gates(found: list[Cause], spec: Document, path: str) -> None:
    for index, gate in enumerate(items(spec, "readinessGates")):
        name = gate.get("conditionType", "")
        for fault in qualified_name_faults(name):
            here = f"{path}.readinessGates[{index}].conditionType"
            found.append(why.invalid(here, name, fault))


def _host_network(found: list[Cause], spec: Document, path: str, *, is_pod: bool) -> None:
    for index, container in enumerate(items(spec, "containers")):
        for position, entry in enumerate(items(container, "ports")):
            host, own = entry.get("hostPort", 0), entry.get("containerPort")
            if (is_pod or host) and host != own:
                here = f"{path}.containers[{index}].ports[{position}].hostPort"
                detail = "must match `containerPort` when `hostNetwork` is true"
                found.append(why.invalid(here, host, detail))


def pod_spec(found: list[Cause], spec: Document, path: str, *, is_pod: bool = False) -> None:
    """Validate a pod spec.

    Args:
        found: extended in place.
        spec: the pod spec, defaulted and valid by its schema.
        path: of the spec.
        is_pod: whether it is a Pod's own, not a template's.
    """
    grace = spec.get("terminationGracePeriodSeconds")
    known = {}
    if "volumes" in spec:
        known = volumes(found, spec, f"{path}.volumes", is_pod=is_pod)
    containers(found, spec, known, path, grace)
    one_of(found, spec, "restartPolicy", path, ("Always", "OnFailure", "Never"))
    if "dnsConfig" in spec or spec.get("dnsPolicy") != "ClusterFirst":
        _dns(found, spec, path)
    for key in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        _subdomain(found, spec, key, path)
    for key in ("hostname", "subdomain"):
        _label(found, spec, key, path)
    if "nodeSelector" in spec:
        labels(found, spec["nodeSelector"], f"{path}.nodeSelector")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        detail = f"must be between 1 and {_MAX_INT32}, inclusive"
        found.append(why.invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    if "tolerations" in spec:
        _tolerations(found, spec, path)
    # Most pods have none of these.
    if "affinity" in spec:
        affinity_rules(found, spec["affinity"], f"{path}.affinity")
    if "hostAliases" in spec:
        _host_aliases(found, spec, path)
    if "readinessGates" in spec:
        _readiness_gates(found, spec, path)
    if "schedulingGates" in spec:
        _gates(found, spec, path)
    if "schedulingGroup" in spec:
        _group(found, spec, path)
    if "topologySpreadConstraints" in spec:
        _spread(found, spec, path)
    if spec.get("hostNetwork"):
        _host_network(found, spec, path, is_pod=is_pod)
    pod_security(found, spec, path)
    host_process(found, spec, path)
    host_users(found, spec, path)
    one_of(found, spec, "preemptionPolicy", path, ("Never", "PreemptLowerPriority"))
    operating_system(found, spec, path)


def pod_template(found: list[Cause], template: Document, path: str) -> None:
    """Validate a pod template."""
    metadata = field(template, "metadata")
    labels(found, field(metadata, "labels"), f"{path}.metadata.labels")
    annotation_rules(found, field(metadata, "annotations"), f"{path}.metadata.annotations")
    spec = field(template, "spec")
    pod_spec(found, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        found.append(why.forbidden(f"{path}.spec.ephemeralContainers", detail))


def pod(found: list[Cause], obj: Document, *, created: bool) -> None:
    """Validate a Pod on creation or update."""
    spec = obj.get("spec")
    if spec is None:
        found.append(why.required("spec.containers"))
        return
    pod_spec(found, spec, "spec", is_pod=True)
    if created and spec.get("ephemeralContainers"):
        detail = "cannot be set on create"
        found.append(why.forbidden("spec.ephemeralContainers", detail))


_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_update(found: list[Cause], new: Document, old: Document) -> None:
    """Check that only mutable fields of a Pod's spec change.

    ``spec.nodeName`` is set by binding, ephemeral containers and resources by their subresources;
    validation of those writes sees no change of these fields.
    """
    spec, before = field(new, "spec"), field(old, "spec")
    if spec == before:
        return
    for key in ("containers", "initContainers"):
        count = len(list(items(before, key)))
        if len(list(items(spec, key))) != count:
            detail = "pod updates may not add or remove containers"
            found.append(why.forbidden(f"spec.{key}", detail))
            return
        for index, container in enumerate(items(spec, key)):
            image = container.get("image", "")
            if image.strip() != image:
                detail = "must not have leading or trailing whitespace"
                found.append(why.invalid(f"spec.{key}[{index}].image", image, detail))
    deadline, previous = spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    here = "spec.activeDeadlineSeconds"
    if deadline is None and previous is not None:
        found.append(
            why.invalid(here, None, "must not update from a positive integer to nil value")
        )
        return
    if deadline is not None and previous is not None and deadline > previous:
        detail = "must be less than or equal to previous value"
        found.append(why.invalid(here, deadline, detail))
        return
    _added_tolerations(found, spec, before)
    _removed_gates(found, spec, before)
    if _without_updatable(spec, before) != before:
        detail = f"pod updates may not change fields other than {_UPDATABLE}\n"
        changes = difference("core.PodSpec", before, _without_updatable(spec, before))
        found.append(why.forbidden("spec", detail + changes))


def _added_tolerations(found: list[Cause], spec: Document, before: Document) -> None:
    def bare(toleration: Document) -> Document:
        return {key: item for key, item in toleration.items() if key != "tolerationSeconds"}

    present = [bare(toleration) for toleration in items(spec, "tolerations")]
    if not all(bare(toleration) in present for toleration in items(before, "tolerations")):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        found.append(why.forbidden("spec.tolerations", detail))


def _removed_gates(found: list[Cause], spec: Document, before: Document) -> None:
    known = {gate.get("name") for gate in items(before, "schedulingGates")}
    for index, gate in enumerate(items(spec, "schedulingGates")):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            found.append(why.forbidden(f"spec.schedulingGates[{index}].name", detail))


def _without_updatable(spec: Document, before: Document) -> Document:
    """Return the spec with all mutable fields set back to their old values."""
    result = clone(spec)
    for key in ("containers", "initContainers"):
        for container, was in zip(items(result, key), items(before, key), strict=True):
            container["image"] = was.get("image")
    keys = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    grace = "terminationGracePeriodSeconds"
    if before.get(grace, 0) < 0 and spec.get(grace) == 1:
        keys.append(grace)
    if before.get("schedulingGates"):
        keys += ["nodeSelector", "affinity"]
    for key in keys:
        if key in before:
            result[key] = before[key]
        else:
            result.pop(key, None)
    typed: Document = result
    return typed
