"""Pods and other children that the cluster refuses to create."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.cli.jobview.why.facts import Explanation, brief
from traincrew.cli.jobview.why.rules import Rule, first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traincrew.cli.jobview.why.facts import Facts

__all__ = ["refused", "refused_pods"]

RULES = (
    Rule(
        "quota",
        r"exceeded quota: (?P<quota>[^,]+), requested: (?P<requested>.+?), used: (?P<used>.+?), "
        r"limited: (?P<limited>[^;\s]+(?:,\s?\S+=[^;\s,]+)*)",
        "{subject}: quota {quota} of namespace {namespace} allows {limited}, and {used} is used",
        "ask for less than {requested}, wait for other jobs, or raise the quota:"
        " kubectl describe quota -n {namespace}",
    ),
    Rule(
        "quota-needs-requests",
        r"failed quota: (?P<quota>[^:]+): must specify (?P<what>[^;]+)",
        "{subject}: quota {quota} wants every container to specify {what}",
        "add {what} to resources of each container",
    ),
    Rule(
        "limit-range",
        r"(?P<what>(maximum|minimum) \S+ usage per \w+ is [^.;]+)",
        "{subject}: a LimitRange of namespace {namespace} forbids it ({what})",
        "correct resources in the template: kubectl describe limitrange -n {namespace}",
    ),
    Rule(
        "pod-security",
        r"violates PodSecurity \"?(?P<level>[^\":]+)",
        "{subject}: the namespace enforces the Pod Security Standard {level}",
        "correct securityContext and volumes in the template, or label the namespace with another"
        " level",
    ),
    Rule(
        "missing-service-account",
        r'serviceaccounts? "(?P<name>[^"]+)" not found',
        "{subject}: ServiceAccount {name} does not exist",
        "create the ServiceAccount {name} in namespace {namespace}, or correct serviceAccountName",
    ),
    Rule(
        "missing-priority-class",
        r"no PriorityClass with name (?P<name>\S+)",
        "{subject}: there is no PriorityClass {name}",
        "create the PriorityClass {name}, or correct priorityClassName",
    ),
    Rule(
        "missing-runtime-class",
        r'RuntimeClass "?(?P<name>[^"\s]+)"? not found',
        "{subject}: there is no RuntimeClass {name}",
        "create the RuntimeClass {name}, or correct runtimeClassName",
    ),
    Rule(
        "foreign-pod",
        r"(?P<pod>[a-z0-9.-]+): another pod has this name",
        "{subject}: another pod has the name {pod} and is not managed by this job",
        "delete that pod, or give the job another name: kubectl get pod -n {namespace} {pod}",
    ),
    Rule(
        "webhook-denied",
        r'admission webhook "(?P<hook>[^"]+)" denied the request:? ?(?P<said>.*)',
        "{subject}: the admission webhook {hook} denies it: {said}",
        "correct what the webhook names, or ask whoever installed it",
    ),
    Rule(
        "webhook-unreachable",
        r'failed calling webhook "(?P<hook>[^"]+)"',
        "{subject}: the admission webhook {hook} does not answer",
        "repair the program behind the webhook, or remove its WebhookConfiguration",
    ),
    Rule(
        "namespace-terminating",
        r"because it is being terminated|namespace \S+ is being terminated",
        "{subject}: namespace {namespace} is being deleted",
        "use another namespace",
    ),
    Rule(
        "operator-rights",
        r'User "(?P<user>system:serviceaccount:[^"]+)" cannot (?P<verb>\w+) '
        r'resource "(?P<what>[^"]+)"',
        "{subject}: {user} has no right to {verb} {what}",
        "install the roles of this version of the operator: traincrew manifests |"
        " kubectl apply -f -",
    ),
    Rule(
        "invalid-template",
        r"is invalid: (?P<what>.+)",
        "{subject}: its template is invalid ({what})",
        "correct the field in the manifest",
    ),
)


def refused(facts: Facts, messages: Iterable[str], subject: str) -> Explanation | None:
    """Explain why something cannot be created, by messages that say so."""
    words = {"subject": subject, "namespace": facts.namespace}
    for message in messages:
        found = first(RULES, message, words)
        if found is not None:
            return Explanation(
                cause=found.cause,
                text=f"{found.text}.",
                evidence=(brief(message), *_quota(facts, message)),
                fix=found.fix,
            )
    return None


def refused_pods(facts: Facts) -> Explanation | None:
    """Explain why pods are missing."""
    if not facts.missing:
        return None
    messages = [facts.job.status.message]
    uid = facts.job.metadata.uid
    messages += [
        one.message
        for one in facts.own_events()
        if one.reason == "FailedCreate" or one.involved_object.uid == uid
    ]
    some = "a pod" if facts.missing == 1 else f"{facts.missing} pods"
    return refused(facts, messages, f"{facts.title} waits for {some} that cannot be created")


def _quota(facts: Facts, message: str) -> Iterator[str]:
    for quota in facts.quotas or ():
        name = quota.metadata.name
        if f"quota: {name}" in message:
            used, hard = quota.status.used, quota.status.hard
            rows = [f"{key} {used.get(key, '0')}/{value}" for key, value in sorted(hard.items())]
            yield f"quota {name}, used/hard: {', '.join(rows)}"
