"""Silences, comments, history and stages of alerts, as the API, the stream and Prometheus show them."""

import pytest

from monitor_server.commands.main import main
from tests.databases import sqlite_only
from tests.live import eventually, listening
from tests.monitor_server.single_steps import step


@pytest.fixture
def live(start_collector, scripted, clock):
    return start_collector(
        engine=scripted, clock=clock, stall_minimum_seconds=10_000, stall_factor=5, lost_factor=10, tick_seconds=0.05
    )


def post(live, path, **body):
    answer = live.pool.request("POST", f"{live.url}/api/v1{path}", json=body)
    return answer.json() | {"status_code": answer.status}


def alert(live, **fields):
    """Return the newest alert."""
    return live.get("/alerts", **fields)["items"][0]


def history(live, alert_id):
    """Return the events of the history, the oldest first."""
    return live.get(f"/alerts/{alert_id}/history")["items"][::-1]


def changes(live, alert_id):
    return [(entry["change"], entry["stage"], entry["by"]) for entry in history(live, alert_id)]


def deleted_runs(live):
    with live.app.state.collector.store.read() as repositories:
        return repositories.deletion.deleted_runs()


def metric(live, name, **labels):
    """Return the samples of a metric that have some labels."""
    text = live.pool.request("GET", f"{live.url}/metrics").data.decode()
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    lines = [line for line in text.splitlines() if line.startswith(name + "{") and all(each in line for each in wanted)]
    return [float(line.rsplit(" ", 1)[1]) for line in lines]


def test_a_whole_life_is_kept_with_who_when_and_why(live, clock):
    """Opened, acknowledged, commented, raised, resolved and opened again: the history of the kind is one list."""
    step(live, 1, warn=1.0)
    first = alert(live)
    post(live, f"/alerts/{first['id']}/ack", by="ann", note="on it")
    clock.now += 5
    comment = post(live, f"/alerts/{first['id']}/comments", by="ben", text="the data changed")
    assert (comment["status_code"], comment["why"], comment["stage"]) == (200, "the data changed", "acknowledged")
    step(live, 2, page=1.0)
    eventually(lambda: alert(live)["severity"] == "critical")
    step(live, 3)
    eventually(lambda: alert(live)["state"] == "resolved")
    step(live, 4, warn=1.0)
    again = eventually(lambda: alert(live)["state"] == "firing" and alert(live))
    assert (again["reopened_from"], again["stage"]) == (first["id"], "firing")
    assert changes(live, again["id"]) == [
        ("opened", "firing", None),
        ("acknowledged", "acknowledged", "ann"),
        ("commented", "acknowledged", "ben"),
        ("raised", "firing", None),
        ("resolved", "resolved", None),
        ("reopened", "firing", None),
    ]
    story = history(live, again["id"])
    assert [entry["step"] for entry in story] == [1, None, 1, 2, 3, 4]
    assert [entry["why"] for entry in story] == [
        "warn is 1.0", "on it", "the data changed", "page is 1.0", "not found at step 3", "warn is 1.0",
    ]  # fmt: skip
    assert story[2]["at"] == story[1]["at"] + 5
    assert {entry["alert_id"] for entry in story} == {first["id"], again["id"]}


def test_a_silence_of_an_alert_ends_when_the_alert_is_resolved(live):
    """It is shown and recorded meanwhile; Prometheus does not count it as firing, and shows its stage."""
    step(live, 1, warn=1.0)
    found = alert(live)
    silence = post(live, "/silences", alert_id=found["id"], until_resolved=True, by="ann", reason="a known problem")
    assert (silence["status_code"], silence["state"], silence["severity"]) == (200, "active", "warning")
    silenced = live.get(f"/alerts/{found['id']}")
    assert (silenced["stage"], silenced["state"], silenced["silence_id"]) == ("silenced", "firing", silence["id"])
    assert metric(live, "rlvitals_alert_firing", kind="scripted") == [0.0]
    assert metric(live, "rlvitals_alert_stage", kind="scripted", stage="silenced") == [1.0]
    step(live, 2, warn=1.0)
    step(live, 3)
    eventually(lambda: alert(live)["state"] == "resolved")
    (ended,) = live.get("/silences")["items"]
    assert (ended["state"], ended["ended_by"]) == ("ended", None)
    step(live, 4, warn=1.0)
    eventually(lambda: alert(live)["stage"] == "firing")
    assert [entry["change"] for entry in history(live, found["id"])] == ["opened", "silenced", "resolved", "reopened"]


def test_a_silence_of_one_alert_does_not_cover_a_greater_severity(live):
    """A warning is silenced; when it becomes critical it fires."""
    step(live, 1, warn=1.0)
    found = alert(live)
    post(live, "/silences", alert_id=found["id"], minutes=60, by="ann")
    step(live, 2, page=1.0)
    raised = eventually(lambda: alert(live)["severity"] == "critical" and alert(live))
    assert (raised["stage"], raised["silence_id"]) == ("firing", None)
    assert [entry["change"] for entry in history(live, found["id"])][-2:] == ["raised", "silence_ended"]


def test_a_silence_by_kind_and_project_begins_and_ends_by_its_times(live, clock):
    """Alerts that are open when it begins, or that open meanwhile, are silenced; those left at its end fire."""
    step(live, 1, warn=1.0)
    begin, end = clock.now + 100, clock.now + 200
    silence = post(live, "/silences", project="default", kind="scripted", starts_at=begin, ends_at=end, by="ann")
    assert silence["state"] == "scheduled"
    assert alert(live)["stage"] == "firing"
    clock.now = begin + 1
    eventually(lambda: alert(live)["stage"] == "silenced")
    step(live, 1, run="other", page=1.0)
    other = eventually(lambda: next(iter(live.get("/alerts", severity="critical")["items"]), None))
    assert (other["stage"], other["silenced_until"]) == ("silenced", end)
    assert len(live.get("/alerts", stage="silenced")["items"]) == 2
    clock.now = end + 1
    eventually(lambda: {each["stage"] for each in live.get("/alerts", state="firing")["items"]} == {"firing"})
    assert [entry["change"] for entry in history(live, other["id"])] == ["opened", "silenced", "silence_ended"]
    assert live.get("/silences", state="ended")["items"][0]["id"] == silence["id"]


def test_a_silence_does_not_reach_other_runs_kinds_or_projects(live):
    """The fields that a silence names restrict it."""
    run_id = step(live, 1, warn=1.0)["run_id"]
    step(live, 1, run="other", warn=1.0)
    post(live, "/silences", run_id=run_id, minutes=60)
    post(live, "/silences", kind="plateau", minutes=60)
    post(live, "/silences", project="another", minutes=60)
    stages = {each["run"]: each["stage"] for each in live.get("/alerts")["items"]}
    assert stages == {"r": "silenced", "other": "firing"}


def test_ending_one_of_two_silences_leaves_the_other_in_force(live):
    """The alert stays silenced by the one that is left, and then fires."""
    step(live, 1, warn=1.0)
    kind = post(live, "/silences", kind="scripted", minutes=60, by="ann")
    project = post(live, "/silences", project="default", minutes=30, by="ben")
    post(live, f"/silences/{kind['id']}/end", by="ann")
    assert (alert(live)["stage"], alert(live)["silence_id"]) == ("silenced", project["id"])
    assert post(live, f"/silences/{project['id']}/end", by="cleo")["ended_by"] == "cleo"
    assert alert(live)["stage"] == "firing"
    assert changes(live, alert(live)["id"])[-1] == ("silence_ended", "firing", "cleo")


def test_an_acknowledged_alert_is_acknowledged_again_after_its_silence(live):
    """Comments and acknowledgements from before the silence, or during it, are kept."""
    step(live, 1, warn=1.0)
    found = alert(live)
    silence = post(live, "/silences", alert_id=found["id"], minutes=60)
    assert post(live, f"/alerts/{found['id']}/ack", by="ann")["stage"] == "silenced"
    post(live, f"/silences/{silence['id']}/end")
    assert alert(live)["stage"] == "acknowledged"


def test_an_alert_of_a_silent_run_has_no_data_until_steps_arrive(live, clock):
    """The stage is "no data"; the alert that the clock opens fires."""
    step(live, 1, warn=1.0)
    found = alert(live)
    clock.now += 15_000
    eventually(lambda: live.get(f"/alerts/{found['id']}")["stage"] == "no_data")
    assert alert(live, stage="firing")["kind"] == "telemetry_stale"
    step(live, 2, warn=1.0)
    eventually(lambda: live.get(f"/alerts/{found['id']}")["stage"] == "firing")
    kinds = [(entry["change"], entry["stage"]) for entry in history(live, found["id"])]
    assert kinds == [("opened", "firing"), ("data_lost", "no_data"), ("data_returned", "firing")]
    assert "the run is stalled: no step for 15000 s" in history(live, found["id"])[1]["why"]


def test_a_finding_is_pending_for_as_many_steps_as_the_settings_demand(start_collector, scripted):
    """A warning fires two steps later. One that ends before that never fires, and a critical one fires at once."""
    live = start_collector(engine=scripted, pending_steps=2)
    step(live, 1, warn=1.0)
    assert (alert(live)["state"], alert(live)["stage"]) == ("pending", "pending")
    assert metric(live, "rlvitals_alert_firing", kind="scripted") == []
    assert live.get("/runs")["items"][0]["alerts"] == 0
    step(live, 2)
    eventually(lambda: alert(live)["state"] == "resolved")
    for number in (3, 4):
        step(live, number, warn=1.0)
    assert alert(live)["stage"] == "pending"
    step(live, 5, warn=1.0)
    fires = eventually(lambda: alert(live)["stage"] == "firing" and alert(live))
    assert [entry["change"] for entry in history(live, fires["id"])] == ["opened", "resolved", "reopened", "held"]
    step(live, 1, run="critical", page=1.0)
    eventually(lambda: alert(live)["run"] == "critical" and alert(live)["stage"] == "firing")


def test_findings_that_come_and_go_are_one_alert_where_the_settings_say_so(start_collector, scripted):
    """The setting reaches the alerts of a run."""
    live = start_collector(engine=scripted, keep_firing_steps=2)
    for number, warn in enumerate((1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0), start=1):
        step(live, number, warn=warn)
    found = eventually(lambda: alert(live)["state"] == "resolved" and alert(live))
    assert (found["opened_step"], found["last_step"], found["resolved_step"]) == (1, 4, 7)
    assert [entry["change"] for entry in history(live, found["id"])] == ["opened", "resolved"]


@pytest.mark.parametrize(("keep", "first_step"), [(0, 3), (9, 3), (9, 4), (9, 6), (9, 7)])
def test_a_warning_that_is_not_found_where_an_attempt_begins_ends_whatever_the_settings_say(
    start_collector, scripted, keep, first_step
):
    """It opened at step 1, was last found at step 4, and is kept at 5 and 6: an action policy would act on it anew."""
    live = start_collector(engine=scripted, keep_firing_steps=keep)
    for number in (1, 2, 3, 4, 5, 6):
        step(live, number, warn=float(number <= 4))
    live.send(run="r", attempt=2, records=[{"step": first_step, "scalars": {}}])
    ended = alert(live)
    resolved_step = 5 if keep == 0 else first_step
    assert (ended["state"], ended["opened_step"], ended["resolved_step"]) == ("resolved", 1, resolved_step)


def test_the_stream_says_that_an_alert_is_silenced(live):
    """The event of the silence has the alert's stage."""
    step(live, 1, warn=1.0)
    with listening(live) as events:
        post(live, "/silences", kind="scripted", minutes=1)
        stages = (data["stage"] for kind, data in events if kind == "alert")
        assert next(stage for stage in stages if stage != "firing") == "silenced"


def test_the_event_of_a_silence_has_the_alerts_about_the_instrument_as_the_list_does(start_collector, scripted):
    """A page that is open would stop to say that the numbers of the alert are in doubt."""

    class Doubted(scripted):
        def update(self, observation):
            assessment = super().update(observation)
            gaps = [finding._replace(kind="sampler_gap") for finding in assessment.findings]
            return assessment._replace(findings=[*assessment.findings, *gaps])

    live = start_collector(engine=Doubted)
    step(live, 1, warn=1.0)
    with listening(live) as events:
        post(live, "/silences", kind="scripted", minutes=1)
        silenced = next(data for kind, data in events if kind == "alert" and data["stage"] == "silenced")
    assert silenced["instrument_alerts"] == ["sampler_gap"]
    assert silenced in live.get("/alerts")["items"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"minutes": 5}, "must name at least one"),
        ({"kind": "a"}, "exactly one of ends_at, minutes and until_resolved"),
        ({"kind": "a", "minutes": 5, "until_resolved": True}, "exactly one of"),
        ({"kind": "a", "until_resolved": True}, "needs alert_id"),
        ({"kind": "a", "ends_at": 5}, "must end after it starts"),
        ({"kind": "a", "ends_at": 1e12}, "within 366 days"),
        ({"kind": "a", "minutes": 0}, "minutes"),
        ({"kind": "a\x00", "minutes": 1}, "kind"),
        ({"kind": "nonsense", "minutes": 1}, "kind must be a kind of alert, got 'nonsense'; the kinds are advantage_"),
        ({"kind": "rule:", "minutes": 1}, "rule:NAME"),
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(sqlite_collector, body, message):
    """With what must hold."""
    before = sqlite_collector.get("/silences")
    answer = post(sqlite_collector, "/silences", **body)
    assert (answer["status_code"], answer["error"]) == (422, "InvalidField")
    assert message in answer["detail"]
    assert sqlite_collector.get("/silences") == before


@sqlite_only
def test_a_kind_is_silenced_before_an_alert_has_it(live):
    """The kinds are those of detectors, of silent runs and of rules, which may be written later."""
    for kind in ("entropy_collapse", "telemetry_stale", "trainer_lost", "rule:mine"):
        assert post(live, "/silences", kind=kind, minutes=1)["kind"] == kind


def test_a_kind_of_another_version_is_silenced_where_an_alert_of_it_fires(live):
    """A projector of another version may process the runs; where no alert of the kind fires, it is refused."""
    step(live, 1, warn=1.0)
    assert post(live, "/silences", kind="scripted", minutes=1)["kind"] == "scripted"
    assert post(live, "/silences", kind="scripted", project="another", minutes=1)["error"] == "InvalidField"


@sqlite_only
def test_the_command_names_the_bounds_of_hours(live, capsys):
    """The message names the option, not a field of the API that nobody has typed; the longest time is accepted."""
    asked = ["silence", "add", "--kind", "plateau", "--url", live.url]
    for hours in ("1e9", "8785", "0", "-1", "nan"):
        assert main([*asked, "--hours", hours]) == 1
        assert "--hours must be above 0 and at most 8,784 (366 days), got" in capsys.readouterr().err
    assert main([*asked, "--hours", "8784"]) == 0


@sqlite_only
def test_the_command_names_the_kinds_where_one_is_mistyped(live, capsys):
    """In one line, with the list."""
    assert main(["silence", "add", "--kind", "nonsense", "--hours", "1", "--url", live.url]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "got 'nonsense'" in line
    assert "entropy_collapse" in line


def test_what_a_silence_names_must_exist_and_fit(live):
    """An unknown run or alert is 404; a resolved alert, and one of another run, cannot be silenced."""
    step(live, 1, warn=1.0)
    found = alert(live)
    assert post(live, "/silences", run_id="nobody", minutes=1)["status_code"] == 404
    assert post(live, "/silences", alert_id="nobody", minutes=1)["status_code"] == 404
    assert post(live, "/silences/nobody/end")["error"] == "UnknownSilence"
    assert "another run or kind" in post(live, "/silences", alert_id=found["id"], kind="b", minutes=1)["detail"]
    assert "another project" in post(live, "/silences", alert_id=found["id"], project="b", minutes=1)["detail"]
    step(live, 2)
    eventually(lambda: alert(live)["state"] == "resolved")
    assert "is resolved" in post(live, "/silences", alert_id=found["id"], minutes=1)["detail"]


@sqlite_only
def test_the_command_silences_lists_and_ends(live, capsys):
    """The commands of alerts comment and show the history; every change is in the audit log."""
    step(live, 1, warn=1.0)
    found = alert(live)
    assert main(["silence", "add", "--alert", found["id"], "--hours", "2", "--by", "ann", "--url", live.url]) == 0
    assert "until" in capsys.readouterr().out
    assert main(["silence", "list", "--url", live.url]) == 0
    output = capsys.readouterr().out
    assert found["id"] in output
    assert "active" in output
    silence_id = live.get("/silences")["items"][0]["id"]
    assert main(["silence", "end", silence_id, "--by", "ben", "--url", live.url]) == 0
    assert main(["alerts", "--comment", found["id"], "--note", "harmless", "--by", "ann", "--url", live.url]) == 0
    capsys.readouterr()
    assert main(["alerts", "--history", found["id"], "--url", live.url]) == 0
    assert "harmless" in capsys.readouterr().out
    assert main(["silence", "add", "--kind", "a", "--url", live.url]) == 1
    assert "--hours or --until-resolved" in capsys.readouterr().err
    assert main(["silence", "end", "--url", live.url]) == 1
    audit = [(entry["action"], entry["by"]) for entry in live.get("/audit")["items"][::-1]]
    assert audit == [("silence.create", "ann"), ("silence.end", "ben"), ("alert.comment", "ann")]


def test_a_project_is_deleted_with_its_silences(live):
    """They stay while its last run is deleted, which may begin anew; those of other projects stay in any case."""
    run_id = step(live, 1, warn=1.0)["run_id"]
    post(live, "/silences", project="default", minutes=5)
    kept = post(live, "/silences", project="another", minutes=5)
    assert live.pool.request("DELETE", f"{live.url}/api/v1/runs/{run_id}?force=true").status == 200
    eventually(lambda: deleted_runs(live) == [])
    assert len(live.get("/silences")["items"]) == 2
    step(live, 2)
    assert live.pool.request("DELETE", f"{live.url}/api/v1/projects/default?force=true").status == 200
    eventually(lambda: [each["id"] for each in live.get("/silences")["items"]] == [kept["id"]])


def test_a_run_is_deleted_with_the_silences_of_its_alerts(live):
    """They name no run, and would be in force for ever; the silence of another run's alert stays."""
    for run in ("deleted", "kept"):
        step(live, 1, run=run, warn=1.0)
    items = live.get("/alerts")["items"]
    silences = {each["run"]: post(live, "/silences", alert_id=each["id"], until_resolved=True) for each in items}
    run_id = next(each["run_id"] for each in items if each["run"] == "deleted")
    assert live.pool.request("DELETE", f"{live.url}/api/v1/runs/{run_id}?force=true").status == 200
    eventually(lambda: [each["id"] for each in live.get("/silences")["items"]] == [silences["kept"]["id"]])


def test_alerts_of_a_run_that_is_being_deleted_are_not_looked_for_again_and_again(live, clock, monkeypatch):
    """Their silence has ended, and nobody can lock their run: a full slice of them leaves no work."""
    monkeypatch.setattr("monitor_server.alerts.silencing.ALERTS_PER_SLICE", 1)
    run_id = step(live, 1, warn=1.0)["run_id"]
    silence = post(live, "/silences", project="default", minutes=5)
    collector = live.app.state.collector
    with collector.store.write() as repositories:
        repositories.deletion.begin_deletion([run_id], now=clock())
        repositories.silences.end(silence["id"], by="ann", now=clock())
        assert not repositories.silences.has_due(now=clock())
        assert not collector.silencing.apply(repositories).has_more


def test_comments_are_bounded(live, monkeypatch):
    """A person who may comment cannot fill the database."""
    monkeypatch.setattr("monitor_server.api.routes.alert_history.MAX_COMMENTS", 2)
    step(live, 1, warn=1.0)
    path = f"/alerts/{alert(live)['id']}/comments"
    assert [post(live, path, text="t")["status_code"] for _ in range(3)] == [200, 200, 422]


def test_acknowledgements_and_silences_are_bounded(live, monkeypatch):
    """Detection reads every acknowledgement of a run, and each change of its alerts every silence in force."""
    monkeypatch.setattr("monitor_server.alerts.acknowledgement.MAX_ACKNOWLEDGEMENTS", 2)
    monkeypatch.setattr("monitor_server.api.routes.silences.MAX_SILENCES", 2)
    step(live, 1, warn=1.0)
    path = f"/alerts/{alert(live)['id']}/ack"
    assert [post(live, path)["status_code"] for _ in range(3)] == [200, 200, 422]
    made = [post(live, "/silences", project="default", minutes=5) for _ in range(3)]
    assert [each["status_code"] for each in made] == [200, 200, 422]
    assert post(live, f"/silences/{made[0]['id']}/end")["status_code"] == 200
    assert post(live, "/silences", project="default", minutes=5)["status_code"] == 200
