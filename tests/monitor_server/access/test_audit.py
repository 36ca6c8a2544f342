"""Every change is in the audit log, with who, when and what; no key is in any log or answer."""

import logging

from monitor_server.commands.main import main
from tests.databases import sqlite_only


def entries(guarded, key):
    """Return author, action and detail of each entry, the oldest first."""
    items = guarded.ask("GET", "/api/v1/audit", key).json()["items"]
    return [(item["by"], item["action"], item["target"]) for item in reversed(items)]


def test_every_change_names_its_author(guarded):
    """A key cannot write in the name of another: what it calls itself stands before its own name."""
    admin = guarded.key("admin", name="root")
    operator = guarded.key("operate", project="ours", name="night shift")
    run = guarded.send(admin, page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts", operator).json()["items"]
    body = {"by": "root", "note": "seen"}
    acknowledged = guarded.ask("POST", f"/api/v1/alerts/{alert['id']}/ack", operator, body=body).json()
    assert acknowledged["acknowledged_by"] == "root (night shift)"
    assert guarded.ask("POST", f"/api/v1/runs/{run}/reset", operator, body={}).status == 200
    assert guarded.ask("DELETE", f"/api/v1/runs/{run}?force=true", admin).status == 200
    made = guarded.ask("POST", "/api/v1/keys", admin, body={"name": "t", "scope": "ingest"}).json()
    guarded.ask("DELETE", "/api/v1/keys/t", admin)
    assert entries(guarded, admin)[2:] == [
        ("root (night shift)", "alert.acknowledge", alert["id"]),
        ("night shift", "run.reset", run),
        ("root", "run.delete", run),
        ("root", "key.create", made["id"]),
        ("root", "key.revoke", made["id"]),
    ]
    (newest,) = guarded.ask("GET", "/api/v1/audit?limit=1", admin).json()["items"]
    assert (newest["detail"], newest["project"]) == ("t", None)


def test_an_administrator_of_a_project_reads_its_entries(guarded):
    """And those of no other."""
    guarded.key("admin", project="theirs")
    ours = guarded.key("admin", project="ours")
    (entry,) = guarded.ask("GET", "/api/v1/audit", ours).json()["items"]
    assert entry["project"] == "ours"


def test_without_keys_changes_are_recorded_by_what_people_call_themselves(guarded, capsys):
    """The command prints them."""
    run = guarded.send(None, page=1.0)
    (alert,) = guarded.ask("GET", "/api/v1/alerts").json()["items"]
    body = {"by": "ann", "note": ""}
    acknowledged = guarded.ask("POST", f"/api/v1/alerts/{alert['id']}/ack", body=body).json()
    assert acknowledged["acknowledged_by"] == "ann"
    guarded.ask("POST", f"/api/v1/runs/{run}/reset", body={})
    assert entries(guarded, None) == [("ann", "alert.acknowledge", alert["id"]), ("somebody", "run.reset", run)]
    assert main(["audit", "--url", guarded.live.url]) == 0
    assert "alert.acknowledge" in capsys.readouterr().out


def test_what_retention_removes_is_recorded(start_collector, scripted, clock):
    """A run that the settings delete has an entry of its own."""
    from tests.live import eventually  # noqa: PLC0415
    from tests.monitor_server.access.conftest import Guarded  # noqa: PLC0415

    guarded = Guarded(start_collector(engine=scripted, clock=clock, run_days=1.0, retention_seconds=0.05))
    run = guarded.send(None)
    clock.now += 2 * 86_400
    eventually(lambda: ("retention", "run.delete", run) in entries(guarded, None))


@sqlite_only
def test_no_key_is_in_a_log_or_an_error(guarded, caplog, capsys):
    """Every key that was made is looked for in every line that was logged and every answer that was given."""
    caplog.set_level(logging.DEBUG)
    answers = []
    admin = guarded.key("admin")
    for scope in ("ingest", "read", "operate", "admin"):
        key = guarded.key(scope, project="ours")
        run = guarded.send(admin, run=scope, page=1.0)
        asked = [
            ("GET", f"/api/v1/runs/{run}", None), ("GET", "/metrics", None), ("POST", "/api/v1/keys", {"name": key}),
            ("POST", "/api/v1/session", {"key": key, "more": key}), ("POST", "/api/v1/session", {"key": key}),
            ("POST", "/api/v1/ingest", {"run": 1}), ("GET", "/api/v1/keys", None), ("GET", "/api/v1/audit", None),
            ("GET", f"/api/v1/runs/{run}?{'x' * 100}", None), ("PUT", "/api/v1/runs", None),
        ]  # fmt: skip
        for method, path, body in asked:
            for sent in (key, key[:-1], key + "x"):
                answer = guarded.ask(method, path, sent, body=body)
                answers.append(answer.data.decode() + str(answer.headers))
    text = caplog.text + "".join(capsys.readouterr()) + "".join(answers)
    assert len(guarded.secrets) == 5
    assert not [secret for secret in guarded.secrets if secret.removeprefix("rlv_")[:-1] in text]
