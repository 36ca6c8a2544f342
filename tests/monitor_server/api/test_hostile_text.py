"""Hostile text is refused or shown escaped, and a database that holds it can be read."""

import base64
import io
import json
import logging

import numpy as np
import pytest
from pyarrow import parquet

from monitor_server.access.keys.new_keys import NewKey
from monitor_server.rules.definition import read_rule
from monitor_server.text_safety.printable import PrintableFormatter
from tests.databases import execute, sqlite_only

HOSTILE = "\x1b]0;mine\x07\x1b[2J\r\nforged line\u202e\u2028\x9b31m"
ESCAPED = r"\x1b]0;mine\x07\x1b[2J\r\nforged line\u202e\u2028\x9b31m"


def ask(live, method, path, body=None):
    headers = {"Content-Type": "application/json"} if body is not None else {}
    answer = live.pool.request(method, f"{live.url}{path}", body=body, headers=headers)
    return answer.status, answer.json()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/runs?project=a%00b"),
        ("GET", "/api/v1/runs/%00"),
        ("GET", "/api/v1/runs/none/series?signals=%00"),
        ("GET", "/api/v1/alerts?run_id=%00"),
        ("GET", "/api/v1/alerts/a%00"),
        ("POST", "/api/v1/alerts/%00/ack"),
        ("POST", "/api/v1/runs/%00/reset"),
        ("GET", "/api/v1/stream?run_id=%00"),
        ("GET", "/%00"),
    ],
)
def test_an_address_with_nul_is_refused(collector, method, path):
    """PostgreSQL cannot compare it with anything; it is refused alike on both databases."""
    status, problem = ask(collector, method, path)
    assert (status, problem["error"]) == (422, "InvalidField")
    assert "NUL" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"by": "a\0"},
        {"note": "a\0"},
        {"by": "\ud800"},
        {"note": "\udfff"},
        {"\ud800": 1},
        {"\x9b31m\u202e": 1},
        {"by": ["\ud800"]},
    ],
    ids=ascii,
)
def test_a_body_with_text_that_cannot_be_stored_is_a_located_error(collector, body):
    """The name of a field may be such a text too, which the error has to spell."""
    for path in ("/api/v1/alerts/none/ack", "/api/v1/runs/none/reset"):
        status, problem = ask(collector, "POST", path, json.dumps(body).encode())
        assert (status, problem["error"]) == (422, "InvalidField")
        assert problem["detail"].isprintable()


@pytest.mark.parametrize("path", ["/api/v1/runs/{}", "/api/v1/alerts/{}/attribution", "/api/{}", "/{}", "/healthz/{}"])
def test_an_error_spells_what_was_asked_in_escapes(collector, path):
    """A terminal that shows the answer of curl is not steered by it."""
    quoted = "".join(f"%{byte:02X}" for byte in HOSTILE.encode())
    status, problem = ask(collector, "GET", path.format(quoted))
    assert status == 404
    assert problem["detail"].isprintable()


def test_a_log_line_cannot_be_forged():
    """Control characters of a message, and of an exception's text, are written as escapes on a line of their own."""
    formatter = PrintableFormatter("%(levelname)s %(message)s")
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "by %s", (HOSTILE,), None)
    assert formatter.format(record) == f"INFO by {ESCAPED}"
    error = ValueError(HOSTILE)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed", (), (ValueError, error, None))
    first, *others = formatter.format(record).split("\n")
    assert first == "ERROR failed"
    assert others
    assert all(line.startswith("  ") and line.isprintable() for line in others)


def overwrite(database_url, table, column, literals, where=""):
    """Write a literal of each database into a column of all rows."""
    statements = {kind: f"UPDATE {table} SET {column} = {literal}{where}" for kind, literal in literals.items()}  # noqa: S608
    execute(database_url, statements)


def _alert(live):
    live.send(run="r", records=[{"step": 0, "scalars": {"warn": 1.0}}])
    (alert,) = live.get("/alerts")["items"]
    return alert


# What an earlier version may have stored, and what is shown of it.
TREES = {
    "surrogates": (rb'{"a\ud800": ["\udfff", {"b": "\ud83d\ude00"}]}', {"a\ufffd": ["\ufffd", {"b": "\U0001f600"}]}),
    "deep": (
        b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}",
        json.loads('{"a": ' + "[" * 99 + '"…"' + "]" * 99 + "}"),
    ),
    "cut": (b'{"a": ', {"unreadable": '{"a": '}),
    "no object": (b"[1, 2]", {"unreadable": "[1, 2]"}),
    "no text": (b"\xff\xfe", {"unreadable": "\ufffd\ufffd"}),
}


def test_a_configuration_or_evidence_that_was_stored_earlier_is_read(start_collector, scripted, database_url):
    """An older version may have stored any text: the run's pages answer, and show the readable part."""
    live = start_collector(engine=scripted)
    alert = _alert(live)
    for step, (damage, (stored, readable)) in enumerate(TREES.items(), start=1):
        for table, column in (("runs", "config"), ("alerts", "evidence")):
            literals = {"sqlite": f"x'{stored.hex()}'", "postgresql": f"'\\x{stored.hex()}'::bytea"}
            overwrite(database_url, table, column, literals)
        assert live.get(f"/runs/{alert['run_id']}")["config"] == readable, damage
        assert live.get("/alerts")["items"][0]["evidence"] == readable, damage
        for path in (f"/alerts/{alert['id']}", f"/alerts/{alert['id']}/attribution", "/runs"):
            assert live.get(path)
        status, _ = ask(live, "POST", f"/api/v1/alerts/{alert['id']}/ack", b'{"by": "ann"}')
        assert status == 200, damage
        assert live.send(run="r", records=[{"step": step, "scalars": {"warn": 2.0}}])["judged_step"] == step


def test_a_part_of_a_run_that_cannot_be_decoded_costs_only_itself(start_collector, scripted, database_url):
    """The newest values are left out, a phase without a known name is unknown, and everything else is read."""
    live = start_collector(engine=scripted)
    run_id = _alert(live)["run_id"]
    overwrite(database_url, "runs", "recent", {"sqlite": "x'c1'", "postgresql": "'\\xc1'::bytea"})
    overwrite(database_url, "runs", "phase", dict.fromkeys(("sqlite", "postgresql"), "'unheard of'"))
    run = live.get(f"/runs/{run_id}")
    assert (run["phase"], run["sparkline"]["values"]) == ("unknown", [])
    assert live.pool.request("GET", f"{live.url}/metrics").status == 200


DAMAGED = {"sqlite": "x'c1'", "postgresql": "'\\xc1'::bytea"}


def _array(values, dtype):
    held = np.array(values, dtype=dtype)
    return {"dtype": dtype, "shape": list(held.shape), "data": base64.b64encode(held.tobytes()).decode()}


@pytest.mark.parametrize("packed", ["c1", "00" * 80], ids=["no number", "more signals than there are"])
def test_a_step_that_cannot_be_decoded_costs_only_itself(start_collector, scripted, database_url, packed, caplog):
    """The list of steps names it, and everything else shows the others: series, export, metrics, alert."""
    live = start_collector(engine=scripted)
    for step in range(3):
        run_id = live.run(run="r", records=[{"step": step, "scalars": {"warn": 1.0, "a": float(step)}}])
    literals = {"sqlite": f"x'{packed}'", "postgresql": f"'\\x{packed}'::bytea"}
    overwrite(database_url, "steps", "packed", literals, " WHERE step <> 1")
    rule = {"name": "x", "condition": "threshold", "signal": "warn", "operator": ">", "value": 0.0}
    body = {"run_id": run_id, "rule": rule}
    tried = live.pool.request("POST", f"{live.url}/api/v1/rules/dry-run", json=body).json()
    assert (tried["steps"], tried["state"]) == (3, "fired")
    items = live.get(f"/runs/{run_id}/steps")["items"]
    assert [(item["step"], item["damaged"], item["signals"]) for item in items] == [
        (0, True, {}),
        (1, False, {"warn": 1.0, "a": 1.0}),
        (2, True, {}),
    ]
    (series,) = live.get(f"/runs/{run_id}/series", signals="a")["items"]
    if packed == "c1":  # of a row that is too long the first values may be true
        assert (series["steps"], series["values"]) == ([1], [1.0])
    (alert,) = live.get("/alerts")["items"]
    assert live.get(f"/alerts/{alert['id']}/attribution")
    for path in (f"/api/v1/runs/{run_id}/export", f"/api/v1/runs/{run_id}/export?format=parquet", "/metrics"):
        assert live.pool.request("GET", live.url + path).status == 200
    assert "step 0 of run" in caplog.text
    assert live.send(run="r", records=[{"step": 3, "scalars": {"a": 3.0}}])["judged_step"] == 3


def test_a_response_that_cannot_be_decoded_costs_only_itself(start_collector, scripted, database_url, caplog):
    """The others are listed, also where the damaged ones would have filled a page."""
    live = start_collector(engine=scripted)
    response = {
        "kinds": ["random"],
        "reward": 1.0,
        "correct": True,
        "length": 1,
        "logprob": -1.0,
        "actions": _array([[0, 1]], "int32"),
        "logprobs": _array([-1.0], "float32"),
    }
    for step in range(8):
        run_id = live.run(run="r", records=[{"step": step, "scalars": {"warn": 1.0}, "responses": [response]}])
    overwrite(database_url, "responses", "body", DAMAGED, " WHERE step > 2 AND step < 7")
    found, cursor = [], {}
    for _ in range(10):
        part = live.get(f"/runs/{run_id}/responses", limit=2, **cursor)
        found += [item["step"] for item in part["items"]]
        if part["next"] is None:
            break
        cursor = {"cursor": part["next"]}
    assert found == [7, 2, 1, 0]
    (alert,) = live.get("/alerts")["items"]
    assert live.get(f"/alerts/{alert['id']}/attribution")
    assert "step 6 of run" in caplog.text


def test_a_run_with_a_damaged_configuration_is_exported(start_collector, database_url):
    """Both forms have the run's steps, and the readable part of its configuration."""
    live = start_collector()
    run_id = live.run(run="r", config={"a": 1}, records=[{"step": 0, "scalars": {"a": 1.0}}])
    address = f"{live.url}/api/v1/runs/{run_id}/export"
    for damage, (stored, readable) in TREES.items():
        literals = {"sqlite": f"x'{stored.hex()}'", "postgresql": f"'\\x{stored.hex()}'::bytea"}
        overwrite(database_url, "runs", "config", literals)
        heading, step, *_ = map(json.loads, live.pool.request("GET", address).data.splitlines())
        assert (heading["config"], step["signals"]) == (readable, {"a": 1.0}), damage
        table = parquet.read_table(io.BytesIO(live.pool.request("GET", f"{address}?format=parquet").data))
        heading = json.loads(table.schema.metadata[b"rlvitals_export"])["runs"]["r"]
        assert (heading["config"], table["a"].to_pylist()) == (readable, [1.0]), damage


def test_text_that_is_no_utf_8_is_read(start_collector, scripted, tmp_path):
    """SQLite stores any bytes as text, and its driver cannot decode them; PostgreSQL does not take them."""
    url = f"sqlite:///{tmp_path / 'other.db'}"
    live = start_collector(engine=scripted, database_url=url)
    run_id = _alert(live)["run_id"]
    execute(url, {"sqlite": "UPDATE runs SET source = CAST(x'61ff62' AS TEXT)"})
    assert live.get(f"/runs/{run_id}")["source"] == "a\ufffdb"


def test_labels_of_metrics_are_printable(start_collector, scripted, database_url):
    """A name that an older version has let through cannot forge a line or a label."""
    live = start_collector(engine=scripted)
    live.send(run="r", project="p", records=[{"step": 0, "scalars": {"a": 1.0, "warn": 1.0}}])
    names = {"sqlite": "char(27)||char(10)||char(8238)", "postgresql": "chr(27)||chr(10)||chr(8238)"}
    for table, column in (("runs", "name"), ("runs", "project"), ("signals", "name"), ("alerts", "kind")):
        where = " WHERE name = 'a'" if table == "signals" else ""
        overwrite(database_url, table, column, names, where)
    text = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    assert all(line.isprintable() for line in text.split("\n"))
    assert r'run="\\x1b\\n\\u202e"' in text


@pytest.mark.parametrize(
    "name", ["", "  ", "\u200b", "\u2060 \u200d", "\u3164", "a\nb", "a\u202eb", "a\0b", "a\x1b[2Jb"]
)
def test_a_view_needs_a_name_that_can_be_seen(collector, name):
    """Otherwise nobody would find it in a list, or its row would look different from its content."""
    status, answer = _post(collector, "/views", {"name": name, "query": "q=1"})
    assert (status, answer["error"]) == (422, "InvalidField")
    assert "body.name: must be one line of characters that can be seen" in answer["detail"] or not name


@pytest.mark.parametrize("name", ["Müller 👩\u200d💻", " 日本 ", "نام\u200cها", "a b"])
def test_a_view_may_have_a_name_in_any_language(collector, name):
    """Letters and emoji may have parts that are joined; blanks around it are no part of it."""
    status, answer = _post(collector, "/views", {"name": name, "query": "q=1", "by": name})
    assert (status, answer["name"], answer["saved_by"]) == (200, name.strip(), name)


@pytest.mark.parametrize("by", ["a\nforged line", "a\r", "\u202eecila", "a\u2028b", "\u200b"])
def test_the_name_of_a_person_is_one_line(collector, by):
    """It stands in logs, in the audit log and in messages, where a line break or another direction would mislead."""
    status, answer = _post(collector, "/silences", {"kind": "plateau", "minutes": 5, "by": by})
    assert status == 422
    assert "body.by: must be one line" in answer["detail"]


TURNING = ["\u202e", "\u202a", "\u2066", "\u2069", "\u200f", "\u061c"]
ORDINARY = ["👩\u200d💻 run", "نام\u200cها", "שלום world", "تجربة ١", "日本"]


@sqlite_only  # it is refused before a database is asked
def test_what_people_write_turns_nothing_around(start_collector, scripted):
    """Each text is refused with its field, the character and its place; the earlier text stays."""
    live = start_collector(engine=scripted)
    alert = _alert(live)
    for mark in TURNING:
        _refuses(live, alert, mark)
    found = live.get(f"/runs/{alert['run_id']}")
    assert (found["title"], found["tags"], found["notes"]) == (None, [], None)


def _refuses(live, alert, mark):
    text, run, code = f"two\nab{mark}c", alert["run_id"], f"U+{ord(mark):04X}"
    rule = {"name": "mine", "condition": "threshold", "signal": "a", "operator": ">", "value": 1}
    wanted = {
        ("PATCH", f"/runs/{run}", "title"): text[4:],
        ("PATCH", f"/runs/{run}", "tags"): ["x", text[4:]],
        ("PATCH", f"/runs/{run}", "notes"): text,
        ("POST", f"/alerts/{alert['id']}/ack", "note"): text,
        ("POST", f"/alerts/{alert['id']}/comments", "text"): text,
        ("POST", "/silences", "reason"): text,
        ("POST", "/keys", "name"): text[4:],
        ("POST", "/rules", "rule"): rule | {"message": text[4:]},
        ("POST", "/rules", "by"): text[4:],
    }
    for (method, path, field), value in wanted.items():
        others = {"/silences": {"minutes": 5}, "/keys": {"scope": "read"}, "/rules": {"rule": rule}}.get(path, {})
        status, answer = ask(live, method, f"/api/v1{path}", json.dumps(others | {field: value}).encode())
        place = "line 2, character 3" if value == text else "character 3"
        assert (status, answer["error"]) == (422, "InvalidField"), path
        assert answer["detail"].startswith(f"body.{field}"), path
        assert f"got {code} at {place}" in answer["detail"], path


def test_every_language_can_be_written(start_collector, scripted):
    """This includes text from right to left, and the characters that join the parts of letters and emoji."""
    live = start_collector(engine=scripted)
    alert = _alert(live)
    for text in ORDINARY:
        labels = {"title": text, "tags": [text], "notes": f"{text}\n\t{text}"}
        status, found = ask(live, "PATCH", f"/api/v1/runs/{alert['run_id']}", json.dumps(labels).encode())
        assert (status, {name: found[name] for name in labels}) == (200, labels)
        for path, body in (("comments", {"text": text}), ("ack", {"note": text, "by": text})):
            status, _ = ask(live, "POST", f"/api/v1/alerts/{alert['id']}/{path}", json.dumps(body).encode())
            assert status == 200
        assert NewKey(name=text, scope="read").name == text


def test_a_stored_rule_is_read_whatever_its_message_has():
    """A rule of an earlier version stays in force, though its message would be refused now."""
    rule = {"name": "mine", "condition": "threshold", "signal": "a", "operator": ">", "value": 1, "message": "\u202e"}
    assert read_rule(rule).message == "\u202e"


def _post(collector, path, body):
    answer = collector.pool.request("POST", f"{collector.url}/api/v1{path}", json=body)
    return answer.status, answer.json()
