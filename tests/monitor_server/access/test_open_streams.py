"""A stream that is open ends with words when who reads it may read it no longer, or something else than before."""

from dataclasses import replace

import pytest
from urllib3.exceptions import ProtocolError

from monitor_server.access import enforcement
from tests.databases import enlarge_configurations, sqlite_only
from tests.live import listening
from tests.monitor_server.access.conftest import Guarded


def reason_of(events):
    """Read a stream to its end, and return the reason that its last event gives."""
    *_, (kind, data) = events
    assert kind == "ended"
    return data["reason"]


def test_a_stream_ends_when_its_key_is_demoted(guarded):
    """The key moves to another project, or to a scope without reading; a later stream is refused or confined."""
    guarded.key("admin")
    for change, words in (({"project": "theirs"}, "has changed"), ({"scope": "ingest"}, "needs a key with the scope")):
        secret = guarded.key("read", project="ours")
        collector = guarded.live.app.state.collector
        guarded.live.pool.headers["Authorization"] = f"Bearer {secret}"
        with listening(guarded.live) as events:
            with collector.store.write() as repositories:
                repositories.api_keys.renew(replace(collector.keys.recognise(secret), **change))
            assert words in reason_of(events)


@sqlite_only
def test_a_stream_ends_with_the_session_although_the_key_goes_on(start_collector, clock):
    """The cookie ends, by which the stream was opened; the key is valid."""
    guarded = Guarded(start_collector(clock=clock, session_seconds=100.0))
    key = guarded.key("read")
    answer = guarded.ask("POST", "/api/v1/session", body={"key": key})
    guarded.live.pool.headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
    with listening(guarded.live) as events:
        clock.now += 101
        assert "needs a key" in reason_of(events)
    guarded.live.pool.headers.clear()
    assert guarded.ask("GET", "/api/v1/runs", key).status == 200


def test_a_stream_without_a_key_ends_when_keys_are_needed(guarded):
    """It was opened while everybody could read everything."""
    with listening(guarded.live) as events:
        guarded.key("admin")
        assert "needs a key" in reason_of(events)


@sqlite_only
def test_a_stream_of_a_proxys_user_ends_so_that_the_proxy_is_asked_again(start_collector, monkeypatch):
    """The proxy cannot tell that it has signed the user out."""
    monkeypatch.setattr(enforcement, "PROXY_USER_SECONDS", 0.0)
    guarded = Guarded(start_collector(trusted_header="X-User", trusted_proxies="127.0.0.1"))
    guarded.live.pool.headers["X-User"] = "anna"
    with listening(guarded.live) as events:
        assert "the proxy must confirm your name again" in reason_of(events)


@sqlite_only
@pytest.mark.parametrize("scope", ["read", "operate", "admin"])
def test_a_stream_goes_on_while_other_keys_end(guarded, scope):
    """Only its own key is checked; no event that is sent meanwhile is lost."""
    admin, secret = guarded.key("admin"), guarded.key(scope)
    guarded.key("read", name="another")
    guarded.live.pool.headers["Authorization"] = f"Bearer {secret}"
    with listening(guarded.live) as events:
        assert guarded.ask("DELETE", "/api/v1/keys/another", admin).status == 200
        guarded.live.pool.headers.clear()
        run = guarded.send(admin, steps=1)
        assert next(data["run_id"] for kind, data in events if kind == "step") == run


@sqlite_only
def test_a_download_ends_when_its_key_does(start_collector, database_url):
    """A download may last for hours. Its unread part of the store is not sent, and the reader sees that it is cut."""
    guarded = Guarded(start_collector())
    guarded.key("admin")
    secrets = [guarded.key("read", project="ours", name=name) for name in ("revoked", "demoted")]
    sending, collector = guarded.key("ingest"), guarded.live.app.state.collector
    for number in range(8):
        body = {"schema_version": 1, "run": f"r{number}", "project": "ours", "records": []}
        assert guarded.ask("POST", "/api/v1/ingest", sending, body=body).status == 200
    enlarge_configurations(database_url, 3_000_000)  # together more than the sockets between both hold
    answers = [guarded.ask("GET", "/api/v1/export?project=ours", key, preload_content=False) for key in secrets]
    assert [answer.status for answer in answers] == [200, 200]
    revoked, demoted = map(collector.keys.recognise, secrets)
    with collector.store.write() as repositories:
        repositories.api_keys.revoke(revoked.id, now=collector.clock())
        repositories.api_keys.renew(replace(demoted, project="theirs"))
    collector.keys.read()
    for answer in answers:
        with pytest.raises(ProtocolError):
            answer.read()
