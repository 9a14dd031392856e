"""What the chart of kube-openmpi refuses: its template ``checks.yaml``, and hints of its schema.

Both say what `traincrew.api.kinds.mpicluster.valuescheck` says. Helm prints a value that does not
match a pattern of the schema, and a value may be a private key or a token: so patterns are in the
template, whose errors have the key and a text of ours only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster import codesync, podvalues, rules, types
from traincrew.api.kinds.mpicluster.transport import (
    EXEC,
    GATEWAY_NEEDS_SSH,
    KEYS_NEED_SSH,
    MOUNTS,
    SSH,
)
from traincrew.api.kinds.mpicluster.valuescheck import PATTERNS, hint, paths
from traincrew.api.placeholders import EDIT_ME
from traincrew.api.runpolicy import INT32_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.operator.manifests.template import Document

MAX_SECONDS = 3600
MAX_PORT = 65535
_SHORTEST_TAIL = 4
"""Characters of the last words of a key that are taken for the key."""
_MOST_PLACES = 2
"""Places that a hint may name; of a key that is in many, none is the nearest."""


# -- keys that do not exist -----------------------------------------------------------------------


def hints(known: list[str], *, misplaced: bool) -> Document:
    """Return ``patternProperties`` for keys near to known ones; each says which key is meant.

    Of a value that a schema refuses with ``const``, Helm prints what it must be, not what it is.

    Args:
        known: The keys of one mapping.
        misplaced: Whether keys of other mappings are named as well, with their places.
    """
    found: Document = {}
    near = re.compile("|".join(map(one_edit, known)))
    for key in known:
        found[one_edit(key)] = _left_out(f"did you mean {key}?")
    for key in _others(known, misplaced=misplaced):
        text = hint(key, known, "")
        few = text.startswith("did you mean") and text.count(" or ") < _MOST_PLACES
        if few and not near.search(key):
            found[f"^{re.escape(key)}$"] = _left_out(text)
    return found


def _left_out(text: str) -> Document:
    return {"const": f"left out: no such key; {text}"}


def _others(known: list[str], *, misplaced: bool) -> Iterator[str]:
    """Yield words that may be written for a key, here or elsewhere, and are none here."""
    everywhere = [re.split(r"[.\]]+", path)[-1] for path in paths()] if misplaced else []
    words = [
        *(key.lower() for key in known),
        *(tail for key in known for tail in _tails(key)),
        *everywhere,
    ]
    yield from (word for word in dict.fromkeys(words) if word not in known)


def _tails(key: str) -> Iterator[str]:
    """Yield the last words of a key in camel case: ``podBudget``, ``budget``."""
    for at in re.finditer(r"(?<=[a-z])(?=[A-Z])", key):
        tail = key[at.start() :]
        if len(tail) >= _SHORTEST_TAIL:
            yield tail[0].lower() + tail[1:]


def one_edit(key: str) -> str:
    """Return a pattern of all words that one edit turns into a key.

    An edit is a character that is missing, another, or too many, or two that are exchanged.
    """
    found = []
    for index, char in enumerate(key):
        before, after = key[:index], key[index + 1 :]
        found += [before + after, f"{before}[^{char}]{after}", f"{before}.{key[index:]}"]
        if after and after[0] != char:
            found.append(before + after[0] + char + after[1:])
    return f"^({'|'.join(dict.fromkeys([*found, f'{key}.']))})$"


# -- values ---------------------------------------------------------------------------------------


def _words() -> dict[str, Any]:
    def directories(transport: str) -> str:
        return " ".join(f'"{path}"' for path in MOUNTS[transport])

    return {
        "@CODE@": " ".join(f'"{key}" "{what}"' for key, what in podvalues.CODE.items()),
        "@COMMIT@": codesync.COMMIT,
        "@EXEC@": EXEC,
        "@EXEC_MOUNTS@": directories(EXEC),
        "@GATEWAY_NEEDS_SSH@": GATEWAY_NEEDS_SSH,
        "@HAS_TAG@": podvalues.HAS_TAG,
        "@HTTP_LOGIN@": codesync.HTTP_LOGIN,
        "@KEYS_NEED_SSH@": KEYS_NEED_SSH,
        "@LOGIN@": codesync.LOGIN,
        "@MAX_CODE_NAME@": codesync.MAX_CODE_NAME,
        "@MAX_NAME@": types.MAX_NAME,
        "@MAX_PORT@": MAX_PORT,
        "@MAX_REPLICAS@": types.MAX_REPLICAS,
        "@MAX_SECONDS@": MAX_SECONDS,
        "@MAX_TIMEOUT@": INT32_MAX,
        "@MAX_UPDATE@": codesync.MAX_UPDATE_SECONDS,
        "@MIN_UPDATE@": codesync.MIN_UPDATE_SECONDS,
        "@NAME@": types.CLUSTER_NAME,
        "@NOT_TEXT@": podvalues.NOT_TEXT,
        "@NO_MOUNT_PATH@": podvalues.NO_MOUNT_PATH,
        "@NO_PRIVATE_KEY@": podvalues.NO_PRIVATE_KEY,
        "@NO_PUBLIC_KEY@": podvalues.NO_PUBLIC_KEY,
        "@NO_SECRETS@": _in_values(codesync.NO_SECRETS),
        "@NO_SERVER@": _in_values(codesync.NO_SERVER),
        "@NO_VOLUME_NAME@": podvalues.NO_VOLUME_NAME,
        "@OWN_PREFIX@": types.OWN_PREFIX,
        "@PLACEHOLDER@": EDIT_ME,
        "@PRIVATE_KEY@": podvalues.PRIVATE_KEY,
        "@PUBLIC_KEY@": podvalues.PUBLIC_KEY,
        "@REPOSITORY@": podvalues.REPOSITORY,
        "@RESOURCES@": " ".join(f'"{key}"' for key in podvalues.RESOURCES),
        "@SERVER@": codesync.SERVER,
        "@SSH_MOUNTS@": directories(SSH),
        "@SUB_PATH_NEEDS@": codesync.SUB_PATH_NEEDS,
        "@TAG@": podvalues.TAG,
        "@TAG_ELSEWHERE@": podvalues.TAG_ELSEWHERE,
        "@WRONG_NAME@": rules.WRONG_NAME,
        "@WRONG_REPOSITORY@": podvalues.WRONG_REPOSITORY,
        "@WRONG_PULL_NAME@": podvalues.WRONG_PULL_NAME,
        "@WRONG_TAG@": podvalues.WRONG_TAG,
        **{
            word: f"`{pattern}` `expected {PATTERNS[pattern]}`"
            for word, pattern in (
                ("@A_LABEL@", types.LABEL_VALUE),
                ("@A_DNS_LABEL@", codesync.DNS_LABEL),
                ("@AN_OBJECT@", codesync.OBJECT_NAME),
                ("@A_GIT_WORD@", codesync.GIT_WORD),
                ("@A_PATH@", codesync.ABSOLUTE_PATH),
            )
        },
        "@OBJECT_NAME@": codesync.OBJECT_NAME,
    }


def _in_values(text: str) -> str:
    return text.replace("secretName", "gitSecretName").replace("repository has", "gitRepo has")


def template() -> str:
    """Return ``templates/checks.yaml``: it renders nothing, or fails with a key and the fix."""
    text = _CHECKS
    for word, value in _words().items():
        text = text.replace(word, str(value))
    return text


_CHECKS = """\
{{- /* Fails if text does not match: key, text, pattern, what is wrong. */}}
{{- define "kube-openmpi.match" -}}
{{- if not (regexMatch (index . 2) (index . 1)) -}}
{{- fail (printf "%s: %s" (index . 0) (index . 3)) -}}
{{- end -}}
{{- end -}}

{{- /* Fails if a number is out of its range: key, number, least, greatest. */}}
{{- define "kube-openmpi.range" -}}
{{- $given := index . 1 | int64 -}}
{{- if lt $given (index . 2 | int64) -}}
{{- fail (printf "%s: expected a whole number >= %d" (index . 0) (index . 2)) -}}
{{- end -}}
{{- if gt $given (index . 3 | int64) -}}
{{- fail (printf "%s: expected a whole number <= %d" (index . 0) (index . 3)) -}}
{{- end -}}
{{- end -}}

{{- /* The directory of the operator that a path is, or is in; empty if there is none. */}}
{{- define "kube-openmpi.taken" -}}
{{- $path := regexReplaceAll "/+$" (index . 0) "" | printf "%s/" -}}
{{- range index . 1 -}}
{{- if hasPrefix (printf "%s/" .) $path -}}{{ . }}{{- end -}}
{{- end -}}
{{- end -}}

{{- $image := .Values.image | default dict }}
{{- $keys := .Values.sshKey | default dict }}
{{- $gateway := .Values.sshGateway | default dict }}
{{- $master := .Values.mpiMaster | default dict }}
{{- $workers := .Values.mpiWorkers | default dict }}
{{- $oneShot := $master.oneShot | default dict }}
{{- $exec := eq (.Values.transport | default "") "@EXEC@" }}
{{- $mounts := list @SSH_MOUNTS@ }}
{{- if $exec }}
{{- $mounts = list @EXEC_MOUNTS@ }}
{{- end }}

{{- /* What is missing, or excludes something else. */}}
{{- range $key := list "repository" "tag" }}
{{- if not (get $image $key) }}
{{- fail (printf "image.%s: it is required; write the %s of your image" $key $key) }}
{{- end }}
{{- if contains "@PLACEHOLDER@" (get $image $key) }}
{{- fail (printf "image.%s: replace @PLACEHOLDER@ by a value of your own" $key) }}
{{- end }}
{{- end }}
{{- if contains "@PLACEHOLDER@" (toJson .Values) }}
{{- fail "replace @PLACEHOLDER@ in your values by values of your own" }}
{{- end }}
{{- if and $keys.id_rsa (not $keys.id_rsa_pub) }}
{{- fail "sshKey.id_rsa_pub: it is required beside sshKey.id_rsa; write it, or remove both" }}
{{- end }}
{{- if and $keys.id_rsa_pub (not $keys.id_rsa) }}
{{- fail "sshKey.id_rsa: it is required beside sshKey.id_rsa_pub; write it, or remove both" }}
{{- end }}
{{- if and $exec $gateway.enabled }}
{{- fail "sshGateway.enabled: @GATEWAY_NEEDS_SSH@" }}
{{- end }}
{{- if and $exec $keys.id_rsa }}
{{- fail "sshKey.id_rsa: @KEYS_NEED_SSH@" }}
{{- end }}
{{- if and $oneShot.enabled (not (trim ($oneShot.command | default ""))) }}
{{- fail "mpiMaster.oneShot.command: it is required if oneShot.enabled is true" }}
{{- end }}

{{- /* Images and keys. */}}
{{- $wrong := `@WRONG_REPOSITORY@` }}
{{- if regexMatch `@HAS_TAG@` $image.repository }}
{{- $wrong = printf "%s%s" $wrong `@TAG_ELSEWHERE@` }}
{{- end }}
{{- $at := "image.repository" }}
{{- include "kube-openmpi.match" (list $at $image.repository `@REPOSITORY@` $wrong) }}
{{- include "kube-openmpi.match" (list "image.tag" $image.tag `@TAG@` `@WRONG_TAG@`) }}
{{- range $index, $secret := $image.pullSecrets | default list }}
{{- $key := printf "image.pullSecrets[%d].name" $index }}
{{- include "kube-openmpi.match" (list $key $secret.name `@OBJECT_NAME@` `@WRONG_PULL_NAME@`) }}
{{- end }}
{{- if $keys.id_rsa }}
{{- $id := "sshKey.id_rsa" }}
{{- include "kube-openmpi.match" (list $id $keys.id_rsa `@PRIVATE_KEY@` `@NO_PRIVATE_KEY@`) }}
{{- $id = "sshKey.id_rsa_pub" }}
{{- include "kube-openmpi.match" (list $id $keys.id_rsa_pub `@PUBLIC_KEY@` `@NO_PUBLIC_KEY@`) }}
{{- end }}

{{- /* Names and numbers. */}}
{{- $at = "the release's name" }}
{{- include "kube-openmpi.match" (list $at .Release.Name `@NAME@` `@WRONG_NAME@`) }}
{{- if gt (len .Release.Name) @MAX_NAME@ }}
{{- fail "the release's name: at most @MAX_NAME@ characters are possible; choose a shorter name" }}
{{- end }}
{{- with include "kube-openmpi.appName" . }}
{{- include "kube-openmpi.match" (list "nameOverride" . @A_LABEL@) }}
{{- end }}
{{- if hasKey $workers "num" }}
{{- include "kube-openmpi.range" (list "mpiWorkers.num" $workers.num 0 @MAX_REPLICAS@) }}
{{- end }}
{{- $update := $master.autoUpdateHostfile | default dict }}
{{- if hasKey $update "updateEvery" }}
{{- $key := "mpiMaster.autoUpdateHostfile.updateEvery" }}
{{- include "kube-openmpi.range" (list $key $update.updateEvery 1 @MAX_SECONDS@) }}
{{- end }}
{{- if and $gateway.enabled (hasKey $gateway "nodePort") }}
{{- include "kube-openmpi.range" (list "sshGateway.nodePort" $gateway.nodePort 1 @MAX_PORT@) }}
{{- end }}

{{- /* Code. */}}
{{- $names := dict }}
{{- $places := dict }}
{{- range $index, $code := .Values.appCodesToSync | default list }}
{{- $at := printf "appCodesToSync[%d]" $index }}
{{- range $pair := list (list "name" @A_DNS_LABEL@) (list "gitRepo" @A_GIT_WORD@) \
(list "mountPath" @A_PATH@) (list "gitBranch" @A_GIT_WORD@) (list "gitSecretName" @AN_OBJECT@) }}
{{- $key := printf "%s.%s" $at (index $pair 0) }}
{{- $text := get $code (index $pair 0) | default "" }}
{{- $what := get (dict @CODE@) (index $pair 0) }}
{{- if and $what (not $text) }}
{{- fail (printf "%s: it is empty; write %s" $key $what) }}
{{- end }}
{{- if $text }}
{{- include "kube-openmpi.match" (list $key $text (index $pair 1) (index $pair 2)) }}
{{- end }}
{{- end }}
{{- if gt (len $code.name) @MAX_CODE_NAME@ }}
{{- fail (printf "%s.name: at most @MAX_CODE_NAME@ characters are possible" $at) }}
{{- end }}
{{- if hasKey $names $code.name }}
{{- fail (printf "%s.name: another entry has this name; give each its own name" $at) }}
{{- end }}
{{- $_ := set $names $code.name true }}
{{- if or (regexMatch `@HTTP_LOGIN@` $code.gitRepo) (regexMatch `@LOGIN@` $code.gitRepo) }}
{{- fail (printf "%s.gitRepo: %s" $at `@NO_SECRETS@`) }}
{{- end }}
{{- $isFile := hasPrefix "file:" $code.gitRepo }}
{{- include "kube-openmpi.match" \
(list (printf "%s.gitRepo" $at) $code.gitRepo `@SERVER@` `@NO_SERVER@`) }}
{{- if and (regexMatch "^[^:/]+:///" $code.gitRepo) (not $isFile) }}
{{- fail (printf "%s.gitRepo: %s" $at `@NO_SERVER@`) }}
{{- end }}
{{- if regexMatch `^[^:/]+://(\\[[^]]*\\]|[^/:]*):[0-9]*[^0-9/]` $code.gitRepo }}
{{- fail (printf "%s.gitRepo: what follows the host's ':' is not a number; correct the port" $at) }}
{{- end }}
{{- if $code.fetchWaitSecond | int64 }}
{{- include "kube-openmpi.range" \
(list (printf "%s.fetchWaitSecond" $at) $code.fetchWaitSecond 1 @MAX_TIMEOUT@) }}
{{- end }}
{{- if $code.updateEvery | int64 }}
{{- include "kube-openmpi.range" \
(list (printf "%s.updateEvery" $at) $code.updateEvery @MIN_UPDATE@ @MAX_UPDATE@) }}
{{- if regexMatch `@COMMIT@` ($code.gitBranch | default "") }}
{{- fail (printf "%s.updateEvery: it has no use, because the branch is a commit; remove it" $at) }}
{{- end }}
{{- end }}
{{- with $code.subPath }}
{{- if not (hasPrefix (printf "%s/" $code.name) (printf "%s/" .)) }}
{{- $below := trimAll "/" . | trimPrefix (printf "%s/" $code.name) }}
{{- fail (printf "%s.subPath: @SUB_PATH_NEEDS@; write %s/%s" $at $code.name $below) }}
{{- end }}
{{- if has ".." (splitList "/" .) }}
{{- fail (printf "%s.subPath: '..' is not possible; name a directory of the code" $at) }}
{{- end }}
{{- end }}
{{- with include "kube-openmpi.taken" (list $code.mountPath $mounts) }}
{{- fail (printf "%s.mountPath: %s is taken; mount the code somewhere else" $at .) }}
{{- end }}
{{- $place := regexReplaceAll "/+$" $code.mountPath "" }}
{{- if or (not $place) (contains ":" $place) }}
{{- $text := "neither / nor a path with ':' can be a mount; name a directory" }}
{{- fail (printf "%s.mountPath: %s" $at $text) }}
{{- end }}
{{- with get $places $place }}
{{- fail (printf "%s.mountPath: '%s' is mounted there, too; choose another directory" $at .) }}
{{- end }}
{{- $_ := set $places $place $code.name }}
{{- end }}

{{- /* What belongs to pods. */}}
{{- range $role, $pod := dict "mpiMaster" $master "mpiWorkers" $workers }}
{{- range $key, $given := $pod.resources | default dict }}
{{- if not (has $key (list @RESOURCES@)) }}
{{- $text := printf "write %s.resources.limits or requests" $role }}
{{- fail (printf "%s.resources.%s: a container has no such resources; %s" $role $key $text) }}
{{- end }}
{{- if and (ne $key "claims") (not (kindIs "map" $given)) (not (kindIs "invalid" $given)) }}
{{- fail (printf "%s.resources.%s: it does not fit a pod: expected a mapping" $role $key) }}
{{- end }}
{{- end }}
{{- range $key, $given := $pod.nodeSelector | default dict }}
{{- if not (or (kindIs "string" $given) (kindIs "invalid" $given)) }}
{{- fail (printf "%s.nodeSelector.%s: %s" $role $key `@NOT_TEXT@`) }}
{{- end }}
{{- end }}
{{- $there := list }}
{{- range $index, $volume := $pod.volumes | default list }}
{{- $at := printf "%s.volumes[%d].name" $role $index }}
{{- if not $volume.name }}
{{- fail (printf "%s: %s" $at `@NO_VOLUME_NAME@`) }}
{{- end }}
{{- if hasPrefix "@OWN_PREFIX@" (toString $volume.name) }}
{{- $text := "names that begin with '@OWN_PREFIX@' are taken; choose another one" }}
{{- fail (printf "%s: %s" $at $text) }}
{{- end }}
{{- $there = append $there $volume.name }}
{{- end }}
{{- range $index, $mount := $pod.volumeMounts | default list }}
{{- $at := printf "%s.volumeMounts[%d]" $role $index }}
{{- if not $mount.mountPath }}
{{- fail (printf "%s.mountPath: %s" $at `@NO_MOUNT_PATH@`) }}
{{- end }}
{{- if not (has $mount.name $there) }}
{{- $text := printf "there is no volume of this name in %s.volumes" $role }}
{{- fail (printf "%s.name: %s; add it, or correct the name" $at $text) }}
{{- end }}
{{- with include "kube-openmpi.taken" (list $mount.mountPath $mounts) }}
{{- fail (printf "%s.mountPath: %s is taken; mount the volume somewhere else" $at .) }}
{{- end }}
{{- $place := regexReplaceAll "/+$" $mount.mountPath "" }}
{{- if hasKey $places $place }}
{{- fail (printf "%s.mountPath: %s is taken; mount the volume somewhere else" $at $place) }}
{{- end }}
{{- end }}
{{- end }}
"""
