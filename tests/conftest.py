"""Hypothesis profiles: runs repeat exactly and slow machines fail nothing."""

from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")
