"""`podFailurePolicy` and `successPolicy` of a Job (KEP-3329, KEP-3998). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.engine.objects import AnyObject


class Verdict(Struct, frozen=True):
    """The result of the policy for one failed pod.

    Attributes:
        action: `FailJob`, `FailIndex`, `Ignore`, `Count`, or empty when no rule matched.
        message: The reason of `FailJob`, in upstream's words.
    """

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure counts towards the back-off limit."""
        return self.action != "Ignore"


def evaluate(policy: Mapping[str, Any] | None, pod: AnyObject) -> Verdict:
    """Return the verdict of the first rule that matches a failed pod."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    for index, rule in enumerate((policy or {}).get("rules") or ()):
        action = rule.get("action", "")
        if exit_codes := rule.get("onExitCodes"):
            status = _matching_container(exit_codes, pod)
            if status is not None:
                code = status["state"]["terminated"].get("exitCode", 0)
                return Verdict(
                    action,
                    f"Container {status.get('name')} for pod {name} failed with exit code {code} "
                    f"matching {action} rule at index {index}",
                )
        elif patterns := rule.get("onPodConditions"):
            condition = _matching_condition(patterns, pod)
            if condition is not None:
                return Verdict(
                    action,
                    f"Pod {name} has condition {condition} matching {action} rule at index {index}",
                )
    return Verdict()


def _matching_container(rule: Mapping[str, Any], pod: AnyObject) -> dict[str, Any] | None:
    wanted = rule.get("containerName")
    values = rule.get("values") or ()
    for key in ("containerStatuses", "initContainerStatuses"):
        for status in pod.status.get(key) or ():
            terminated = (status.get("state") or {}).get("terminated")
            if terminated is None or (wanted is not None and status.get("name") != wanted):
                continue
            code = terminated.get("exitCode", 0)
            if code != 0 and (code in values) == (rule.get("operator") == "In"):
                return dict(status)
    return None


def _matching_condition(patterns: list[Mapping[str, Any]], pod: AnyObject) -> str | None:
    for condition in pod.status.get("conditions") or ():
        for pattern in patterns:
            if condition.get("type") == pattern.get("type") and condition.get(
                "status"
            ) == pattern.get("status", "True"):
                return str(condition["type"])
    return None


def success_message(
    policy: Mapping[str, Any] | None, succeeded: set[int], completions: int
) -> str | None:
    """Return why the Job has already succeeded, or None if it has not.

    Args:
        policy: `spec.successPolicy`.
        succeeded: Indexes that succeeded.
        completions: `spec.completions`.
    """
    from traincrew.local.controllers.job.indexes import parse

    for index, rule in enumerate((policy or {}).get("rules") or ()):
        wanted = rule.get("succeededIndexes")
        among = succeeded if wanted is None else succeeded & parse(wanted, completions)
        count = rule.get("succeededCount")
        needed = count if count is not None else len(parse(wanted, completions))
        if len(among) >= needed:
            return f"Matched rules at index {index}"
    return None
