"""A recording as a transcript: sections of lines that can be compared with another cluster's.

Each object has its own sections, because how the lives of different objects interleave is chance.
What one writer does one after the other is not: the operator's steps have a section of their own.
States that a watch may or may not show, depending on how fast things went, are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from .normalize import Normaliser
from .recording import JOB_KINDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from .recording import Document, Observation

Transcript = dict[str, list[str]]
"""Lines, by the title of their section."""

# Set by the API server about writes, not by their senders.
_BOOKKEEPING = {"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation",
                "namespace", "name", "generateName"}  # fmt: skip
_ENVELOPE = {"apiVersion", "kind", "metadata", "status"}
# Intermediate conditions of a Job; a training job copies those it happens to observe.
_PASSING = {"SuccessCriteriaMet", "FailureTarget"}
# Transient waiting reasons; whether they are observed depends on timing.
_ON_ITS_WAY = {"ContainerCreating", "PodInitializing"}
# How often these events are reported depends on timing.
_REPEATED = {"BackOff", "FailedScheduling", "FailedCreate", "FailedMount", "Failed", "Pulling",
             "Unhealthy"}  # fmt: skip
# Recorded at the end of a pod only if another status was written meanwhile; and the name of an
# image after it was pulled.
_CHANCE = re.compile(r"(?<=\d) ready$|(?<=\.imageID: ).+$")
# Children that the operator creates together, and their order.
_STAGES = {"ServiceAccount": 0, "Role": 0, "RoleBinding": 0, "ConfigMap": 0, "Service": 0,
           "StatefulSet": 1, "Job": 2}  # fmt: skip
_CHANGES = 3
# Added and removed by the Job controller, at any time.
_TRACKING = "batch.kubernetes.io/job-tracking"


def transcribe(
    observations: Sequence[Observation],
    nodes: Iterable[str],
    logs: Mapping[str, str],
    answers: Mapping[str, str],
) -> Transcript:
    """Return the whole transcript of a recording.

    Args:
        observations: The recording, in order.
        nodes: The names of the cluster's nodes.
        logs: The logs of pods, by their names.
        answers: The API's messages about refused objects.
    """
    normaliser = Normaliser(observations, nodes)
    transcript: Transcript = {"Steps of the operator": _steps(observations, normaliser)}
    lives: dict[str, list[Observation]] = defaultdict(list)
    titles = _titles(observations, normaliser)
    for seen in observations:
        if seen.kind != "Event":
            lives[titles[seen.uid]].append(seen)
    for title, life in sorted(lives.items()):
        transcript[f"{title}, as stored"] = normaliser.lines(_content(life[0].document))
        transcript[f"{title}, life"] = _life(life, normaliser)
        if "status" in life[-1].document and not _is_given_up(life):
            lines = normaliser.lines(life[-1].document["status"])
            transcript[f"{title}, last status"] = [_CHANCE.sub("", line) for line in lines]
    given_up = {life[-1].uid for life in lives.values() if _is_given_up(life)}
    transcript.update(_events(observations, titles, normaliser, given_up))
    if answers:
        transcript["Answers of the API"] = [f"{what}: {said}" for what, said in answers.items()]
    for pod, log in logs.items():
        transcript[f"Pod {normaliser.name(pod)}, log"] = normaliser.text(log).splitlines()
    return transcript


def text(transcript: Transcript) -> str:
    """Return a transcript as one text, for people."""
    return "".join(
        "".join(f"{line}\n" for line in (f"== {title}", *lines))
        for title, lines in transcript.items()
    )


def _titles(observations: Iterable[Observation], normaliser: Normaliser) -> dict[str, str]:
    """Return titles of objects by UID: kind and name, and a number if the name was reused."""
    titles: dict[str, str] = {}
    for seen in observations:
        if seen.uid not in titles and seen.kind != "Event":
            title = f"{seen.kind} {normaliser.name(seen.name)}"
            same = sum(each.partition(" (")[0] == title for each in titles.values())
            titles[seen.uid] = f"{title} ({same + 1})" if same else title
    return titles


# -- objects ----------------------------------------------------------------------------------


def _content(document: Document) -> Document:
    """Return an object as stored, with what defaults and admission have changed."""
    metadata = {
        key: value for key, value in document["metadata"].items() if key not in _BOOKKEEPING
    }
    if metadata.get("finalizers") == [_TRACKING]:
        del metadata["finalizers"]
    without = {*_ENVELOPE, "rules"} if document.get("kind") == "Role" else _ENVELOPE
    rest = {key: value for key, value in document.items() if key not in without}
    return {"metadata": metadata, **rest}


def _grants(role: Document) -> list[str]:
    """Return the rules of a Role, a line for each resource and name."""
    return sorted(
        f"{verb} {group}/{resource} {name}"
        for rule in role.get("rules") or ()
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or ["*"]
    )


def _life(life: list[Observation], normaliser: Normaliser) -> list[str]:
    """Return the states of an object, each once.

    The rules of a Role name the pods that exist. Whether the operator sees the moment between the
    end of a worker's pod and its successor is chance, and so is the order in which it sees several.
    So only what was granted at any time is compared, and what is granted at last.
    """
    lines = ["created"]
    if life[-1].kind == "Role":
        granted = {grant for seen in life for grant in _grants(seen.document)}
        lines += sorted(f"grants {normaliser.text(grant)}" for grant in granted)
        lines += [f"grants at last {normaliser.text(each)}" for each in _grants(life[-1].document)]
    told: set[str] = set()
    given_up = _is_given_up(life)
    for before, after in pairwise([None, *life]):
        assert after is not None
        if before is not None and after.change == "MODIFIED":
            lines += _changes(_content(before.document), _content(after.document), normaliser)
        old = before.document.get("status", {}) if before is not None else {}
        new = after.document.get("status", {})
        if after.kind == "Pod":
            lines += map(normaliser.text, _containers(new, told))
        if old.get("phase") != new.get("phase"):
            lines.append(f"phase {new.get('phase')}")
        if after.kind != "Pod" and not given_up:
            passing = _PASSING if after.kind in JOB_KINDS else set()
            lines += _flips(old, new, passing)
        if after.change == "DELETED":
            lines.append("gone")
    return lines


def _is_given_up(life: Sequence[Observation]) -> bool:
    """Return whether it is a Job of an MxJob that was deleted.

    How far the Job controller got with it is chance.
    """
    last = life[-1]
    return last.kind == "Job" and last.change == "DELETED" and _is_child(last.document, {"MxJob"})


def _changes(before: Document, after: Document, normaliser: Normaliser) -> Iterator[str]:
    """Yield changed leaves of an object's content, as `path: before -> after`."""
    old = dict(line.partition(": ")[::2] for line in normaliser.lines(before))
    new = dict(line.partition(": ")[::2] for line in normaliser.lines(after))
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) != new.get(path):
            yield f"{path}: {old.get(path, 'unset')} -> {new.get(path, 'unset')}"


def _flips(old: Document, new: Document, without: set[str]) -> Iterator[str]:
    """Yield conditions that were added, removed or changed their status."""
    before, after = (
        {
            each["type"]: each
            for each in status.get("conditions") or ()
            if each["type"] not in without
        }
        for status in (old, new)
    )
    for kind, condition in after.items():
        if kind not in before or before[kind]["status"] != condition["status"]:
            yield f"condition {kind}={condition['status']} ({condition.get('reason', '')})"
    for kind in before.keys() - after.keys():
        yield f"condition {kind} is gone"


def _containers(status: Document, told: set[str]) -> Iterator[str]:
    """Yield how containers ended and what they waited for, each instance and each reason once."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(field) or ():
            name, state = container["name"], container.get("state", {})
            for each in (container.get("lastState", {}), state):
                ended = each.get("terminated")
                if ended and (key := f"{name} {ended.get('containerID')}") not in told:
                    told.add(key)
                    yield f"container {name}: {ended.get('reason')}, exit {ended['exitCode']}"
            reason = state.get("waiting", {}).get("reason")
            if reason not in {None, *_ON_ITS_WAY} and f"{name} {reason}" not in told:
                told.add(f"{name} {reason}")
                yield f"container {name} waits: {reason}"


# -- the operator's writes ---------------------------------------------------------------------


def _steps(observations: Iterable[Observation], normaliser: Normaliser) -> list[str]:
    """Return phases and writes to children of all jobs; concurrent writes have a fixed order."""
    steps: list[tuple[int, str]] = []
    before: dict[str, Observation] = {}
    for seen in observations:
        last = before.get(seen.uid)
        before[seen.uid] = seen
        about = f"{seen.kind} {normaliser.name(seen.name)}"
        if seen.kind in JOB_KINDS:
            phase = seen.document.get("status", {}).get("phase")
            if last is None or phase != last.document.get("status", {}).get("phase"):
                steps.append((-1, f"{about}: {phase or 'created'}"))
        elif seen.kind in _STAGES and _is_child(seen.document):
            stage = _STAGES[seen.kind]
            if last is None:
                steps.append((stage, f"{about}: created"))
            elif seen.change == "MODIFIED":
                spec = [each.document.get("spec", {}) for each in (last, seen)]
                changes = _changes({"spec": spec[0]}, {"spec": spec[1]}, normaliser)
                steps += [(_CHANGES, f"{about}: {change}") for change in changes]
    lines = []
    for stage, group in groupby(steps, key=lambda step: step[0]):
        together = [line for _, line in group]
        lines += sorted(together) if stage >= 0 else together
    return lines


def _is_child(document: Document, kinds: Collection[str] = JOB_KINDS) -> bool:
    owners = document["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] in kinds for owner in owners)


# -- events -----------------------------------------------------------------------------------


def _events(
    observations: Iterable[Observation],
    titles: Mapping[str, str],
    normaliser: Normaliser,
    given_up: Collection[str],
) -> Transcript:
    """Return each component's events about each object, in the order of their first occurrence."""
    events: dict[str, dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for seen in observations:
        if seen.kind == "Event" and seen.change != "DELETED":
            events.setdefault(seen.uid, seen.document)
            series = seen.document.get("series") or {}
            counts[seen.uid] = max(series.get("count", 1), seen.document.get("count") or 1)
    sections: dict[str, dict[str, int]] = defaultdict(dict)
    for uid, event in events.items():
        about = event["involvedObject"]
        if about.get("uid") in given_up and event["reason"] != "SuccessfulCreate":
            continue
        component = event.get("reportingComponent") or event.get("source", {}).get("component")
        unknown = f"{about['kind']} {normaliser.name(about['name'])}"
        title = f"{titles.get(about.get('uid', ''), unknown)}, events of {component}"
        place = f" ({about['fieldPath']})" if about.get("fieldPath") else ""
        message = normaliser.text(event.get("message", "")).strip()
        line = f"{event['type']} {event['reason']}{place}: {message}"
        section = sections[title]
        section[line] = section.get(line, 0) + counts[uid]
    return {title: _told(lines) for title, lines in sorted(sections.items())}


def _told(lines: Mapping[str, int]) -> list[str]:
    """Return events with their counts; those of objects that were created together are sorted."""
    told: list[str] = []
    for reason, group in groupby(lines.items(), key=lambda item: _reason(item[0])):
        counts = sorted(group)
        told += [
            line if count == 1 or reason in _REPEATED else f"{line} x{count}"
            for line, count in counts
        ]
    return told


def _reason(line: str) -> str:
    return line.split()[1].rstrip(":")
