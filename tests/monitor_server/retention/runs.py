"""Runs with rows in every table, and the contents of the tables for them."""

import json

import numpy as np
import sqlalchemy

from monitor_server.store.tables import metadata
from tests.live import eventually
from trainer_hooks import wire
from trainer_hooks.wire import Array, Response

OF_A_RUN = [table for table in metadata.sorted_tables if "run_id" in table.c]


def send_everything(live, name, *, text="text", steps=260, is_asked=False, **batch):
    """Send a run with rows in all tables: steps of a chunk, an alert, a silence, actions, responses, a waiting step.

    The tables of rules, requests and links have rows with ``is_asked`` alone: its last step has a critical alert, about
    which the trainer is asked to stop.
    """
    common = {"run": name, "schema_version": 2} | batch
    run_id = live.run(config={"note": text}, **common)
    for begin in range(0, steps, 500):
        records = [
            {"step": step, "time": 1e6 + step, "scalars": {"reward/mean": step / 10, "warn": float(step == 40)}}
            for step in range(begin, min(begin + 500, steps))
        ]
        live.send(records=records, **common)
    if is_asked:
        rule = {"name": "high", "condition": "threshold", "signal": "page", "operator": ">", "value": 1e9}
        _post(live, "/rules", {"rule": rule | {"run_id": run_id, "message": text}, "by": "a"})
        eventually(lambda: live.get(f"/runs/{run_id}/rules")["items"])
    response = sampled(text=f"the answer is {text}")
    action = {"action": "notify", "alert_id": "a", "outcome": "taken", "reason": text}
    sent = wire_json(response)
    scalars = {f"signal/{text}": 1.0} | ({"page": 1.0} if is_asked else {})
    live.send(records=[{"step": steps, "scalars": scalars, "actions": [action], "responses": [sent]}], **common)
    count = 2 if is_asked else 1
    newest, *_ = eventually(lambda: (found := live.get(f"/runs/{run_id}/alerts")["items"])[count - 1 :] and found)
    if is_asked:
        _post(live, f"/alerts/{newest['id']}/actions", {"action": "stop", "by": "a", "note": text})
    _post(live, f"/alerts/{newest['id']}/ack", {"by": "a", "note": text})
    kind = {"kind": "plateau"} if is_asked else {}  # a silenced alert is sent to nobody, and gets no links
    _post(live, "/silences", {"run_id": run_id, "minutes": 60, "reason": text, "by": "a"} | kind)
    live.send(records=[{"step": steps + 1, "scalars": {"reward/mean": 1.0}}], **(common | {"world_size": 2}))
    eventually(lambda: _is_projected(live))
    return run_id


def _is_projected(live):
    with live.app.state.collector.store.read() as repositories:
        return repositories.projection_queue.unprojected_entries() == 0


def _post(live, path, body):
    answer = live.pool.request("POST", f"{live.url}/api/v1{path}", json=body)
    assert answer.status == 200, answer.data


def sampled(**fields):
    """Return a small response."""
    return Response(
        kinds=["random"],
        reward=1.0,
        correct=True,
        length=2,
        logprob=-1.0,
        actions=Array.from_numpy(np.array([[0, 2]], dtype=np.int32)),
        logprobs=Array.from_numpy(np.array([-0.5, -0.5], dtype=np.float16)),
        **fields,
    )


def wire_json(message):
    """Return a wire struct as the JSON that a person may send."""
    return json.loads(wire.encode_json(message))


def count_rows(database_url, run_id):
    """Return the number of rows that each table holds of a run, and of the log the number of records."""
    engine = sqlalchemy.create_engine(database_url)
    with engine.connect() as connection:
        found = {}
        for table in (each for each in metadata.sorted_tables if each.name == "runs" or each in OF_A_RUN):
            column = table.c.id if table.name == "runs" else table.c.run_id
            number = sqlalchemy.func.count()
            if table.name == "records":
                number = sqlalchemy.func.coalesce(sqlalchemy.func.sum(table.c.record_count), 0)
            query = sqlalchemy.select(number).select_from(table).where(column == run_id)
            found[table.name] = int(connection.execute(query).scalar())
    engine.dispose()
    return found
