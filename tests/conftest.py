from __future__ import annotations

from hypothesis import HealthCheck, settings

# No deadline: a first call may compile. The same examples on every machine: a red build can be looked at anywhere.
settings.register_profile(
    "evref", deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("evref")
