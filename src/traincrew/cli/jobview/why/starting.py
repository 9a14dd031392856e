"""Pods that have a node but do not run: images, configuration, volumes, commands, restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.display.programs import by_importance
from traincrew.cli.display.states import WAITING
from traincrew.cli.jobview.why.ending import ended_badly
from traincrew.cli.jobview.why.facts import Explanation, brief
from traincrew.cli.jobview.why.rules import Rule, first

if TYPE_CHECKING:
    from traincrew.cli.display.objects import ContainerStatus, Pod
    from traincrew.cli.jobview.why.facts import Facts

__all__ = ["not_ready", "not_running", "port_taken"]

SLOW_SECONDS = 30.0

_DISK_FULL = Rule(
    "disk-full",
    r"no space left on device|disk quota exceeded",
    "{subject} cannot start: the disk of its node is full",
    "delete what is not needed on that disk; the pod starts as soon as there is space",
)
IMAGE = (
    _DISK_FULL,
    Rule(
        "no-environment",
        r"no environment is defined",
        "{subject} cannot start: the embedded cluster has no environment for image {image}",
        "define one, which the cluster finds by itself: traincrew images map {image} --python 3.11"
        " --requirements requirements.txt; traincrew images list shows those there are",
    ),
    Rule(
        "image-name",
        r"InvalidImageName|couldn't parse image|invalid reference format",
        "{subject} cannot start: {image} is not the name of an image",
        "correct the field image in the manifest",
    ),
    Rule(
        "image-never-pulled",
        r"ErrImageNeverPull|is not present with pull policy",
        "{subject} cannot start: image {image} is not on its node, and may not be pulled",
        "load the image on the node, or set imagePullPolicy: IfNotPresent",
    ),
    Rule(
        "image-unauthorized",
        r"unauthorized|authentication required|denied|403 Forbidden|no basic auth",
        "{subject} cannot start: the registry denied access to image {image}",
        "check the name; for a private image name a Secret in imagePullSecrets"
        " (kubectl create secret docker-registry)",
    ),
    Rule(
        "image-platform",
        r"no match for platform|it is (not )?for \w+/\w+",
        "{subject} cannot start: image {image} is not made for the processors of its node",
        "build it for this platform as well (docker build --platform), or select other nodes",
    ),
    Rule(
        "image-not-found",
        r"not found|manifest unknown|does not exist|no such image|404",
        "{subject} cannot start: there is no image {image}",
        "correct name and tag, or push the image",
    ),
    Rule(
        "registry-limit",
        r"toomanyrequests|rate limit|429",
        "{subject} cannot start: the registry of image {image} is rate limiting pulls",
        "wait, sign in with imagePullSecrets, or use a mirror",
    ),
    Rule(
        "registry-unreachable",
        r"no such host|timeout|timed out|connection refused|i/o timeout|dial tcp|TLS|x509|"
        r"unreachable|temporary failure|cannot reach|certificate verify failed|no answer from",
        "{subject} cannot start: its node does not reach the registry of image {image}",
        "check the network, proxy and certificates of the node, and the registry's name",
    ),
    Rule(
        "image",
        r".",
        "{subject} cannot start: image {image} cannot be pulled",
        "the evidence has the reason; kubectl describe pod -n {namespace} {pod} shows all events",
    ),
)
CONFIGURATION = (
    _DISK_FULL,
    Rule(
        "missing-key",
        r"couldn't find key (?P<key>\S+) in (?P<kind>\w+) (?P<name>\S+)",
        "{subject} cannot start: {kind} {name} has no key {key}",
        "add the key {key}, or correct its name in the manifest",
    ),
    Rule(
        "missing-configmap",
        r'configmaps? "(?P<name>[^"]+)" not found',
        "{subject} cannot start: ConfigMap {name} does not exist",
        "create ConfigMap {name} in namespace {namespace}, or correct its name",
    ),
    Rule(
        "missing-secret",
        r'secrets? "(?P<name>[^"]+)" not found',
        "{subject} cannot start: Secret {name} does not exist",
        "create Secret {name} in namespace {namespace}, or correct its name",
    ),
    Rule(
        "must-not-run-as-root",
        r"runAsNonRoot|non-root|non-numeric user",
        "{subject} cannot start: it must not run as root, but its image does",
        "set securityContext.runAsUser to the user of the image, or remove runAsNonRoot",
    ),
    Rule(
        "command-not-found",
        r"executable file not found|no such file or directory|not found in \$?PATH|exec format"
        r"|permission denied",
        "{subject} cannot start: its command cannot be executed",
        "correct command in the manifest, or use an image that contains the program",
    ),
    Rule(
        "configuration",
        r".",
        "{subject} cannot start: its container cannot be created",
        "the evidence has the reason; correct the manifest",
    ),
)
VOLUMES = (
    _DISK_FULL,
    Rule(
        "missing-configmap",
        r'configmaps? "(?P<name>[^"]+)" not found',
        "{subject} cannot start: ConfigMap {name}, which it mounts, does not exist",
        "create ConfigMap {name} in namespace {namespace}, or correct its name",
    ),
    Rule(
        "missing-secret",
        r'secrets? "(?P<name>[^"]+)" not found',
        "{subject} cannot start: Secret {name}, which it mounts, does not exist",
        "create Secret {name} in namespace {namespace}, or correct its name",
    ),
    Rule(
        "missing-claim",
        r'persistentvolumeclaims? "(?P<name>[^"]+)" not found',
        "{subject} cannot start: its PersistentVolumeClaim {name} does not exist",
        "create the claim {name} in namespace {namespace}, or correct its name",
    ),
    Rule(
        "terminating-claim",
        r"PVC \S+/(?P<name>\S+): PVC is being deleted",
        "{subject} cannot start: its PersistentVolumeClaim {name} is being deleted",
        "delete the pod; when all pods that use the claim are gone, create the claim again",
    ),
    Rule(
        "unbound-claim",
        r"PVC \S+/(?P<name>\S+): PVC is not bound",
        "{subject} cannot start: its PersistentVolumeClaim {name} has no volume",
        "find out why: kubectl describe pvc {name} -n {namespace}",
    ),
    Rule(
        "volume-in-use",
        r"Multi-Attach|already (exclusively )?attached|already used by",
        "{subject} cannot start: its volume is attached to another node",
        "use a claim with accessModes: [ReadWriteMany] for pods on several nodes, or wait until"
        " the other pod is gone",
    ),
    Rule(
        "host-path",
        r"hostPath type check failed|is not a (directory|file)",
        "{subject} cannot start: its hostPath is not there on its node",
        "create the path on every node, or use another kind of volume",
    ),
    Rule(
        "volume",
        r".",
        "{subject} cannot start: a volume of it cannot be mounted",
        "the evidence has the reason; kubectl describe pod -n {namespace} {pod} shows all events",
    ),
)
SANDBOX = (
    _DISK_FULL,
    Rule(
        "sandbox",
        r".",
        "{subject} cannot start: its node cannot prepare the pod",
        "the evidence has the reason; kubectl describe pod -n {namespace} {pod} shows all events",
    ),
)
_VOLUME_EVENTS = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_SANDBOX_EVENTS = frozenset({"FailedCreatePodSandBox"})


def not_running(facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    """Explain why a pod with a node does not run; None if it does, or starts as usual."""
    for container in by_importance(pod):
        waiting = container.state.waiting
        if waiting is None:
            continue
        quoted = f"{waiting.reason}: {waiting.message}"
        known = WAITING.get(waiting.reason)
        if known is None:
            continue
        if known.about == "image":
            events = [one.message for one in facts.events_of(pod) if one.reason == "Failed"]
            return _matched(facts, (pod, container, subject), IMAGE, [quoted, *events])
        if known.about == "configuration":
            return _matched(facts, (pod, container, subject), CONFIGURATION, [quoted])
        if known.about == "program":
            return ended_badly(facts, pod, container, subject, restarting=True)
    return (
        _preparing(facts, pod, subject, (_VOLUME_EVENTS, VOLUMES))
        or _preparing(facts, pod, subject, (_SANDBOX_EVENTS, SANDBOX))
        or _initializing(facts, pod, subject)
    )


def _matched(
    facts: Facts,
    place: tuple[Pod, ContainerStatus, str],
    rules: tuple[Rule, ...],
    messages: list[str],
) -> Explanation:
    pod, container, subject = place
    specs = (*pod.spec.init_containers, *pod.spec.containers)
    image = next((one.image for one in specs if one.name == container.name), "")
    # A back-off repeats only the name of the image; the event before it has the reason.
    words = {
        "subject": subject,
        "image": brief(image) or "its image",
        "namespace": facts.namespace,
        "pod": pod.metadata.name,
    }
    found = [first(rules, message, words) for message in messages]
    general = rules[-1].cause
    match = next((each for each in found if each is not None and each.cause != general), found[0])
    assert match is not None
    quoted = dict.fromkeys(brief(message) for message in messages[:2])
    where = f"container {container.name} of pod {pod.metadata.name}"
    return Explanation(
        cause=match.cause,
        text=f"{match.text}.",
        evidence=tuple(f"{where}: {each}" for each in quoted),
        fix=match.fix,
    )


def _preparing(
    facts: Facts, pod: Pod, subject: str, known: tuple[frozenset[str], tuple[Rule, ...]]
) -> Explanation | None:
    """Explain what its node cannot prepare, as events say as long as the pod starts.

    Args:
        facts: What is known of the job.
        pod: That starts.
        subject: What it is called.
        known: The reasons of events, and the rules for their messages, the most general one last.
    """
    if pod.status.phase != "Pending" or not pod.spec.node_name:
        return None
    reasons, rules = known
    events = [each for each in facts.events_of(pod) if each.reason in reasons]
    if not events:
        return None
    words = {"subject": subject, "namespace": facts.namespace, "pod": pod.metadata.name}
    match = next(
        (found for each in events if (found := first(rules[:-1], each.message, words))), None
    ) or first(rules, events[0].message or "?", words)
    assert match is not None
    return Explanation(
        cause=match.cause,
        text=f"{match.text}.",
        evidence=(
            f"event {events[0].reason} of pod {pod.metadata.name}: {brief(events[0].message)}",
        ),
        fix=match.fix,
    )


def _initializing(facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    name = pod.metadata.name
    for container in pod.status.init_container_statuses:
        if any(
            one.name == container.name and one.restart_policy == "Always"
            for one in pod.spec.init_containers
        ):
            continue  # a sidecar runs beside the program, and ends after it
        ended, running = container.state.terminated, container.state.running
        if ended is not None and ended.exit_code != 0:
            return ended_badly(facts, pod, container, subject, restarting=True)
        if running is not None:
            seconds = facts.age(running.started_at)
            return Explanation(
                cause="initializing",
                text=f"{subject} is initializing: init container {container.name} has run for "
                f"{seconds:.0f} s.",
                evidence=(f"init container {container.name} of pod {name} is running",),
                fix=f"if it takes too long: kubectl logs -n {facts.namespace} {name} "
                f"-c {container.name}",
            )
    seconds = facts.age(pod.metadata.creation_timestamp)
    if pod.status.phase == "Pending" and pod.spec.node_name and seconds >= SLOW_SECONDS:
        return Explanation(
            cause="slow-start",
            text=f"{subject} has been starting for {seconds:.0f} s, mostly to pull its image.",
            evidence=(f"pod {name} on node {pod.spec.node_name} is Pending without an error",),
            fix=f"wait, or look: kubectl describe pod -n {facts.namespace} {name}",
        )
    return None


def port_taken(facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    """Explain that a program of the machine has a port of a pod, as the kubelet's event says."""
    event = next((each for each in facts.events_of(pod) if each.reason == "HostPortConflict"), None)
    if event is None:
        return None
    message = brief(event.message)
    return Explanation(
        cause="port-taken",
        text=f"{subject} does not have its port to itself: {message}.",
        evidence=(f"event HostPortConflict of pod {pod.metadata.name}: {message}",),
        fix="end the other program, or change the port of the job, and create it again",
    )


def not_ready(facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    """Explain why a pod that runs is not ready."""
    if pod.status.phase != "Running":
        return None
    ready = pod.status.condition("Ready")
    if ready is None or ready.status == "True":
        return None
    name, node = pod.metadata.name, pod.spec.node_name
    # The controller of nodes changes nothing but this condition: docs/design/status.md.
    heard = [each.ready for each in pod.status.container_statuses]
    if node and ((heard and all(heard) and not ready.reason) or pod.status.reason == "NodeLost"):
        return Explanation(
            cause="node-lost",
            text=f"{subject} may not run any more: its node {node} does not answer.",
            evidence=(
                (
                    f"condition Ready of pod {name} is {ready.status}, although its containers were"
                    " ready when they were last heard of"
                ),
            ),
            fix="bring the node back, or delete it so that the pod is started elsewhere:"
            f" kubectl get node {node}",
        )
    events = [each for each in facts.events_of(pod) if each.reason == "Unhealthy"]
    if not events:
        return Explanation(
            cause="not-ready",
            text=f"{subject} runs, but is not ready yet.",
            evidence=(f"condition Ready of pod {name} is {ready.status}: {brief(ready.message)}",),
            fix=f"its readiness probe has to succeed: kubectl describe pod -n {facts.namespace} "
            f"{name}",
        )
    liveness = "liveness" in events[0].message.lower()
    return Explanation(
        cause="liveness-probe" if liveness else "readiness-probe",
        text=f"{subject} runs, but "
        + ("its liveness probe fails, so it is restarted." if liveness else "its probe fails."),
        evidence=(f"event Unhealthy of pod {name}: {brief(events[0].message)}",),
        fix="correct the probe in the template, or allow more time (initialDelaySeconds,"
        " failureThreshold)",
    )
