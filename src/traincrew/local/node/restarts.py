"""When an ended container is started again. Pure.

Upstream: `kubecontainer.ShouldContainerBeRestarted`, and the back-off of `doBackOff`.
"""

from __future__ import annotations

__all__ = ["BackOff", "should_restart"]

_FIRST = 10.0
_LONGEST = 300.0
# A container that ran this long has recovered: the next failure counts as the first.
_RECOVERED = 600.0


def should_restart(policy: str, exit_code: int, *, sidecar: bool = False) -> bool:
    """Whether a container that ended is started again.

    Args:
        policy: The pod's `restartPolicy`. (For an init container `Always` acts as `OnFailure`,
            which its caller has to say.)
        exit_code: Of the ended instance.
        sidecar: Whether it is an init container with `restartPolicy: Always`.
    """
    if sidecar or policy == "Always":
        return True
    return policy == "OnFailure" and exit_code != 0


class BackOff:
    """How long to wait before the next try: 10 s doubling to 300 s."""

    def __init__(self, *, immediate: bool, failures: int = 0) -> None:
        """Start.

        Args:
            immediate: The first retry does not wait (containers; pulls of images do).
            failures: Tries that failed before, so that a restarted node does not forget.
        """
        self._free = 1 if immediate else 0
        self._failures = failures
        self.current = 0.0
        """The last answer."""

    def after(self, ran: float = 0.0) -> float:
        """Seconds to wait after a try ended.

        Args:
            ran: How long it lasted, in seconds.
        """
        if ran >= _RECOVERED:
            self._failures = 0
        self._failures += 1
        steps = self._failures - self._free - 1
        self.current = 0.0 if steps < 0 else min(_FIRST * 2.0 ** min(steps, 30), _LONGEST)
        return self.current
