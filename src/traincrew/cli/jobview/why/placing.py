"""Pods that fit on no node: messages of kube-scheduler, by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.jobview.why.facts import Explanation, brief
from traincrew.cli.jobview.why.rules import Rule, first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.cli.display.objects import Pod
    from traincrew.cli.jobview.why.facts import Facts

__all__ = ["unplaced"]

UNSEEN_SECONDS = 10.0
"""After this time a scheduler has tried to place every pod, unless there is none for it."""

RULES = (
    Rule(
        "no-nodes",
        r"no nodes available|0/0 nodes",
        "{subject} cannot be placed: the cluster has no node",
        "add a node, or find out why the nodes are gone: kubectl get nodes",
    ),
    Rule(
        "missing-claim",
        r'persistentvolumeclaims? "(?P<claim>[^"]+)" not found',
        "{subject} cannot be placed: its PersistentVolumeClaim {claim} does not exist",
        "create the claim {claim} in namespace {namespace}, or correct its name in the manifest",
    ),
    Rule(
        "terminating-claim",
        r'persistentvolumeclaims? "(?P<claim>[^"]+)" is being deleted',
        "{subject} cannot be placed: its PersistentVolumeClaim {claim} is being deleted",
        "wait until the pods that use the claim are gone (kubectl describe pvc {claim} -n"
        " {namespace} lists them), then create it again",
    ),
    Rule(
        "lost-claim",
        r'persistentvolumeclaims? "(?P<claim>[^"]+)" bound to non-existent',
        "{subject} cannot be placed: the volume of its PersistentVolumeClaim {claim} is gone",
        "delete the claim {claim} in namespace {namespace}, and create it again",
    ),
    Rule(
        "claim-of-another",
        r"PVC \S+/(?P<claim>\S+) was not created for pod",
        "{subject} cannot be placed: PersistentVolumeClaim {claim} has the name of its ephemeral"
        " volume",
        "delete the claim {claim} in namespace {namespace}, or rename the volume in the template",
    ),
    Rule(
        "unbound-claim",
        r"unbound immediate PersistentVolumeClaims|waiting for first consumer"
        r"|find available persistent volumes",
        "{subject} cannot be placed: a PersistentVolumeClaim of it has no volume",
        "find out why: kubectl describe pvc -n {namespace}; often its storage class does not exist"
        " or offers no volume of that size or access mode",
    ),
    Rule(
        "volume-elsewhere",
        r"volume node affinity conflict|volume zone",
        "{subject} cannot be placed: its volume is bound to nodes on which it cannot run",
        "let the pods run where the volume is, or use a storage class with"
        " volumeBindingMode: WaitForFirstConsumer",
    ),
    Rule(
        "insufficient-gpu",
        r"insufficient (?P<resource>[a-z0-9.-]+/[\w.-]*(gpu|tpu|neuron|gaudi)[\w-]*)",
        "{subject} cannot be placed: no node that fits has enough free {resource}",
        "ask for fewer {resource} or fewer pods, wait for other jobs, or add a node with more;"
        " kubectl describe nodes shows what is allocated",
    ),
    Rule(
        "insufficient-memory",
        r"insufficient memory",
        "{subject} cannot be placed: no node that fits has enough free memory",
        "lower resources.requests.memory, wait for other pods to end, or add a larger node",
    ),
    Rule(
        "insufficient-storage",
        r"insufficient ephemeral-storage",
        "{subject} cannot be placed: no node that fits has enough free ephemeral storage",
        "lower resources.requests.ephemeral-storage, or add a node with a larger disk",
    ),
    Rule(
        "insufficient-cpu",
        r"insufficient cpu",
        "{subject} cannot be placed: no node that fits has enough free CPUs",
        "lower resources.requests.cpu, wait for other pods to end, or add a node",
    ),
    Rule(
        "insufficient-resource",
        r"insufficient (?P<resource>[A-Za-z0-9./_-]*[A-Za-z0-9])",
        "{subject} cannot be placed: no node that fits has enough free {resource}",
        "ask for less {resource}, or install the device plugin that offers it on the nodes",
    ),
    Rule(
        "too-many-pods",
        r"too many pods",
        "{subject} cannot be placed: the nodes that fit run as many pods as they may",
        "wait for other pods to end, or add a node",
    ),
    Rule(
        "ports-taken",
        r"free ports",
        "{subject} cannot be placed: another pod of each node has its hostPort",
        "remove hostPort and hostNetwork from the template, or use fewer pods than nodes",
    ),
    Rule(
        "other-pods-forbid",
        r"anti-affinity|existing pods anti",
        "{subject} cannot be placed: rules of anti-affinity keep it away from every node",
        "use at most as many pods as there are nodes, or make the rule a preferred one",
    ),
    Rule(
        "other-pods-wanted",
        r"pod affinity",
        "{subject} cannot be placed: it wants to be near pods that no node has",
        "correct the podAffinity of the template, or start the pods that it names first",
    ),
    Rule(
        "spread",
        r"topology spread",
        "{subject} cannot be placed without violating its topologySpreadConstraints",
        "allow a larger maxSkew, or whenUnsatisfiable: ScheduleAnyway",
    ),
    Rule(
        "node-selector",
        r"node affinity|node selector|affinity/selector",
        "{subject} cannot be placed: no node has the labels of its nodeSelector or affinity",
        "correct the selector, or label a node: kubectl label node NODE KEY=VALUE;"
        " kubectl get nodes --show-labels lists them",
    ),
    Rule(
        "node-not-ready",
        r"taint\S* \{?node\.kubernetes\.io/(not-ready|unreachable)",
        "{subject} cannot be placed: the nodes that fit are not ready",
        "find out why: kubectl describe nodes",
    ),
    Rule(
        "node-pressure",
        r"taint\S* \{?node\.kubernetes\.io/(?P<pressure>\w+)-pressure",
        "{subject} cannot be placed: matching nodes are under pressure: {pressure}",
        "free some {pressure} on the nodes, or add a node",
    ),
    Rule(
        "node-cordoned",
        r"were unschedulable|node\.kubernetes\.io/unschedulable",
        "{subject} cannot be placed: the nodes that fit are cordoned",
        "kubectl uncordon NODE, when its maintenance is over",
    ),
    Rule(
        "taint",
        r"taints? \{?(?P<taint>[^}\s:]+)|had taints|untolerated taint",
        "{subject} cannot be placed: the nodes that fit have a taint that it does not tolerate",
        "add a toleration to the template, or remove the taint:"
        " kubectl describe nodes shows the taints",
    ),
    Rule(
        "node-name",
        r"requested node name",
        "{subject} cannot be placed: the node of its nodeName does not exist",
        "remove nodeName from the template, or correct it",
    ),
)


def unplaced(facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    """Explain why a pod has no node; None if it has one, or may get one at once."""
    if pod.spec.node_name or pod.status.phase != "Pending":
        return None
    condition = pod.status.condition("PodScheduled")
    if condition is None or condition.status != "False":
        return _unseen(facts, pod, subject) if condition is None else None
    evidence = [f"condition PodScheduled of pod {pod.metadata.name}: {brief(condition.message)}"]
    if condition.reason == "SchedulingGated":
        return Explanation(
            cause="scheduling-gated",
            text=f"{subject} is not placed yet: something holds it back by a scheduling gate.",
            evidence=tuple(evidence),
            fix="wait for the queue that set the gate (Kueue, for example), or look at its quota",
        )
    words = {"subject": subject, "namespace": facts.namespace}
    found = first(RULES, condition.message, words)
    evidence += list(_nodes(facts))
    if found is None:
        return Explanation(
            cause="unschedulable",
            text=f"{subject} cannot be placed: {brief(condition.message)}",
            evidence=tuple(evidence),
            fix="kubectl describe nodes shows what the nodes offer and what is allocated",
        )
    return Explanation(
        cause=found.cause, text=f"{found.text}.", evidence=tuple(evidence), fix=found.fix
    )


def _unseen(facts: Facts, pod: Pod, subject: str) -> Explanation | None:
    seconds = facts.age(pod.metadata.creation_timestamp)
    if seconds < UNSEEN_SECONDS:
        return None
    return Explanation(
        cause="no-scheduler",
        text=f"{subject} waits for a scheduler: none has picked it up for {seconds:.0f} s.",
        evidence=(f"pod {pod.metadata.name} has no condition PodScheduled and no node",),
        fix="install the scheduler of schedulerName in the template, or remove schedulerName;"
        " on the embedded cluster: --scheduler-name NAME",
    )


def _nodes(facts: Facts) -> Iterator[str]:
    """Describe the nodes, if they are few."""
    if facts.nodes is None:
        return
    names = [node.metadata.name for node in facts.nodes]
    cordoned = [node.metadata.name for node in facts.nodes if node.spec.unschedulable]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    yield f"nodes: {shown or 'none'}" + (f"; cordoned: {', '.join(cordoned)}" if cordoned else "")
