"""The tests of the API run on both databases."""

import pytest

from tests.databases import collector, database_url

__all__ = ["collector", "database_url"]


@pytest.fixture(scope="module")
def sent_once():
    """Return a function that lets a module send its runs once to each collector, and returns what they are."""
    sent = {}

    def once(live, send):
        if live.url not in sent:
            sent[live.url] = send(live)
        return sent[live.url]

    return once
