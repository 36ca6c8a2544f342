"""The tests of retention run on both databases, with chunks of a fifth of the usual steps."""

import pytest

from monitor_server.step_processing.run_memory import compacted_runs
from monitor_server.store.repositories.series import compaction
from tests.databases import database_url
from tests.monitor_server.simulated_collectors import small_parts, two_stores

__all__ = ["database_url", "small_parts", "two_stores"]


@pytest.fixture(autouse=True)
def shorter_chunks(monkeypatch):
    """Let 260 steps have a chunk and a tail of single steps, as 1,300 do otherwise."""
    monkeypatch.setattr(compaction, "CHUNK_STEPS", 200)
    monkeypatch.setattr(compaction, "TAIL_STEPS", 51)
    monkeypatch.setattr(compacted_runs, "COMPACTION_STEPS", 51)
