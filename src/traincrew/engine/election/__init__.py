"""Leader election with a Lease: decides which of several processes may act.

The manager starts its controllers when `LeaderElector` acquires leadership, ends them when it loses
it, and takes part in the election again.
"""

from traincrew.engine.election.lease import LeaderElector, LeadershipLost

__all__ = ["LeaderElector", "LeadershipLost"]
