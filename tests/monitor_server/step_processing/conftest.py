"""The tests of the projector run on both databases."""

import pytest

from monitor_server.settings import Settings
from monitor_server.step_processing.slices.projection import Projection
from monitor_server.step_processing.steps.detection import Tracker
from tests.databases import database_url
from tests.monitor_server.simulated_collectors import small_parts, two_stores

__all__ = ["database_url", "small_parts", "two_stores"]


@pytest.fixture
def create_projection(scripted, clock):
    """Create a projection with scripted detectors and its own caches."""
    return lambda **options: Projection(Tracker(scripted), settings=Settings(), clock=clock, **options)
