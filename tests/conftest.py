"""Hypothesis profiles: runs repeat exactly and slow machines fail nothing. And what a test registers ends with it."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from triage_gym import registry

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    """Leave the registries as they were: what one test registers is nothing that another may count."""
    before = {kind: dict(names) for kind, names in registry._registered.items()}
    yield
    for kind, names in before.items():
        registry._registered[kind] = names
