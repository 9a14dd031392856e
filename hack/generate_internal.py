"""Write the data file of Kubernetes' internal Go types, which some validation errors print.

    python -m hack.generate_internal

Needs Go. Kubernetes validates objects in an internal, unversioned form. Errors that show a whole
struct print that form: fields by their Go names, unset ones included. The script writes
``src/traincrew/local/apiserver/schema/data/internal.json.xz``: for every struct its fields as
``[name shown, name in the API, Go type, whether it is left out when empty]``.
"""

import re
from pathlib import Path

from hack.generate_openapi import RELEASE, SERVER_DATA, write_xz

from hack import gotypes

TARGET = SERVER_DATA / "internal.json.xz"
# Structs that error messages print whole.
ROOTS = (
    "core.PersistentVolumeClaimSpec",
    "core.PersistentVolumeSource",
    "core.PodTemplateSpec",
    "core.ServicePort",
    "batch.PodFailurePolicy",
    "batch.SuccessPolicy",
    "policy.PodDisruptionBudgetSpec",
    "apps.DaemonSetUpdateStrategy",
    "apps.RollingUpdateStatefulSetStrategy",
    "flowcontrol.FlowSchemaSpec",
    "flowcontrol.PriorityLevelConfigurationSpec",
    "storage.CSINodeDriver",
)
GROUPS = ("core", "batch", "policy", "apps", "flowcontrol", "storage")
SERIALIZED = {"resource.Quantity", "intstr.IntOrString", "metav1.Time"}

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^\t(?:(\w+)[ \t]+)?([][*.\w]+)[ \t]*(?:`([^`]*)`)?[ \t]*(?://.*)?$", re.MULTILINE
)
_NAMED = re.compile(r"^type (\w+) +(string|bool|u?int\d*|map\[.*|\[\]\w+)$", re.MULTILINE)

Fields = list[tuple[str, str, str]]
"""Go name (empty when embedded), type and tags."""


def read(*files: Path) -> tuple[dict[str, Fields], dict[str, str]]:
    """Return the structs, and the named types that are not structs."""
    text = "\n".join(file.read_text() for file in files)
    text = re.sub(r"^type \(\n(.*?)^\)", "", text, flags=re.MULTILINE | re.DOTALL)
    structs = {name: _FIELD.findall(body) for name, body in _STRUCT.findall(text)}
    return structs, dict(_NAMED.findall(text))


def tag(tags: str) -> list[str]:
    """Return the name and options in a field's ``json`` tag; empty without one."""
    found = re.search(r'json:"([^"]*)"', tags)
    return found[1].split(",") if found else []


def main() -> None:
    """Write the structs that the roots refer to."""
    kubernetes = gotypes.download({"k8s.io/kubernetes": RELEASE})["k8s.io/kubernetes"]
    modules = gotypes.download(dict.fromkeys(gotypes.MODULES, gotypes.VERSION))
    packages = {group: read(kubernetes / "pkg/apis" / group / "types.go") for group in GROUPS}
    packages["metav1"] = read(modules["k8s.io/apimachinery"] / "pkg/apis/meta/v1/types.go")
    served = {group: read(modules["k8s.io/api"] / group / "v1/types.go")[0] for group in GROUPS}
    result: dict[str, list[list[object]]] = {}
    wanted = list(ROOTS)
    while wanted:
        struct = wanted.pop()
        if struct in result:
            continue
        group, _, name = struct.partition(".")
        structs, _named = packages[group]
        names = {
            go_name: tag(tags)[0]
            for go_name, _, tags in served.get(group, {}).get(name, ())
            if go_name
        }
        fields = result[struct] = []
        for go_name, go_type, tags in structs[name]:
            resolved, base = resolve(packages, group, go_type)
            words = tag(tags)
            if go_name and words:
                omit = "omitempty" in words or "omitzero" in words
                fields.append([words[0], words[0], resolved, omit])
            else:
                own = names.get(go_name, go_name[:1].lower() + go_name[1:])
                fields.append([go_name, own, resolved, False])
            if base in packages_of(packages):
                wanted.append(base)
    write_xz(TARGET, result)


def packages_of(packages: dict[str, tuple[dict[str, Fields], dict[str, str]]]) -> set[str]:
    """Return all structs, as ``core.PodSpec``."""
    return {f"{group}.{name}" for group, (structs, _) in packages.items() for name in structs}


def resolve(
    packages: dict[str, tuple[dict[str, Fields], dict[str, str]]], group: str, go_type: str
) -> tuple[str, str]:
    """Return a type in terms of scalars and structs, and its innermost part."""
    for prefix in ("*", "[]"):
        if go_type.startswith(prefix):
            inner, base = resolve(packages, group, go_type[len(prefix) :])
            return prefix + inner, base
    if go_type.startswith("map["):
        inner, base = resolve(packages, group, go_type.partition("]")[2])
        return "map" + inner, base
    if "." not in go_type:
        named = packages[group][1].get(go_type)
        if named is not None:
            return resolve(packages, group, named)
        if go_type in packages[group][0]:
            go_type = f"{group}.{go_type}"
    else:
        prefix, _, name = go_type.partition(".")
        if prefix == "api":
            prefix = "core"
        if prefix in packages and name in packages[prefix][1]:
            return resolve(packages, prefix, packages[prefix][1][name])
        go_type = f"{prefix}.{name}"
    return go_type, go_type


if __name__ == "__main__":
    main()
