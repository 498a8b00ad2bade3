"""The conformance kit: contracts that every environment and wrapper must keep.

``EnvContract`` is a mixin of tests for an environment, ``check_wrapper`` a function for a wrapper. Neither imports
pytest, and nothing is registered.
"""

from triage_gym.testing.environments import EnvContract
from triage_gym.testing.wrappers import check_wrapper

__all__ = ["EnvContract", "check_wrapper"]
