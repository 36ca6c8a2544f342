"""A collector with two projects, and keys for it, on a database of each kind."""

import json

import pytest

from monitor_server.access.callers import Caller, Scope
from monitor_server.access.keys.administration import create_key
from tests.databases import database_url
from trainer_hooks import wire

__all__ = ["database_url"]

AUTHOR = Caller(name="a test", scope=Scope.ADMIN)


class Guarded:
    """A collector that needs keys."""

    def __init__(self, live):
        self.live = live
        self.secrets = []

    def key(self, scope, *, project=None, name=None, expires_at=None):
        """Make a key and return it."""
        collector = self.live.app.state.collector
        with collector.store.write() as repositories:
            secret, _ = create_key(
                repositories,
                name=name or f"{scope}-{project}-{len(self.secrets)}",
                scope=Scope(scope),
                project=project,
                expires_at=expires_at,
                author=AUTHOR,
                now=collector.clock(),
            )
        collector.keys.read()
        self.secrets.append(secret)
        return secret

    def ask(self, method, path, key=None, *, body=None, headers=None, **options):
        """Send a request, with a key or without."""
        headers = dict(headers or {}) | ({"Authorization": f"Bearer {key}"} if key else {})
        if body is not None:
            headers["Content-Type"] = wire.JSON
            options["body"] = json.dumps(body)
        return self.live.pool.request(method, self.live.url + path, headers=headers, redirect=False, **options)

    def send(self, key, *, run="r", project="ours", steps=3, **scalars):
        """Send steps of a run, and return its id."""
        records = [{"step": step, "scalars": {"reward/mean": 0.5} | scalars} for step in range(steps)]
        batch = {"schema_version": 1, "run": run, "project": project, "records": records}
        answer = self.ask("POST", "/api/v1/ingest", key, body=batch)
        assert answer.status == 200, answer.data
        return answer.json()["run_id"]


@pytest.fixture
def guarded(start_collector, scripted):
    """A collector without keys yet, whose detectors a test scripts."""
    return Guarded(start_collector(engine=scripted))
