"""Leader election with a Lease: decides which of several processes may act.

The manager starts its controllers when `LeaderElector` acquires leadership, and ends with
`LeadershipLost` when it loses it.
"""

from traincrew.engine.election.lease import LeaderElector, LeadershipLost

__all__ = ["LeaderElector", "LeadershipLost"]
