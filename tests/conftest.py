"""What all tests share."""

from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does: no failure of what is tested.
settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("here")
