"""The labels that people give a run: title, tags, notes, archived."""

import re

import pytest


def change(collector, run_id, **body):
    """Send a change and return the status and the answer."""
    answer = collector.pool.request("PATCH", f"{collector.url}/api/v1/runs/{run_id}", json=body)
    return answer.status, answer.json()


def records(last):
    return [{"step": step, "scalars": {"reward/mean": 0.5}} for step in range(last)]


def test_a_run_has_title_tags_and_notes(collector):
    """Fields that are sent are stored with the run, fields that are left out stay, and null removes one."""
    run_id = collector.run(run="labelled", records=records(3))
    assert collector.get(f"/runs/{run_id}") | {"title": None, "tags": [], "notes": None, "archived": False} == (
        collector.get(f"/runs/{run_id}")
    )
    status, found = change(
        collector, run_id, title=" The good one ", tags=["b", "عربي", "b"], notes="<img onerror>\n😀"
    )
    assert status == 200
    assert (found["title"], found["tags"], found["notes"]) == ("The good one", ["b", "عربي"], "<img onerror>\n😀")
    _, found = change(collector, run_id, title=None)
    assert (found["title"], found["tags"], found["name"]) == (None, ["b", "عربي"], "labelled")
    collector.run(run="labelled", records=[{"step": 3, "scalars": {"reward/mean": 0.5}}])
    assert collector.get(f"/runs/{run_id}")["tags"] == ["b", "عربي"]


def test_an_archived_run_can_be_left_out_of_lists(collector):
    """It stays readable, and comes back."""
    kept, gone = (collector.run(run=name, project="archive", records=records(2)) for name in ("kept", "gone"))
    change(collector, gone, archived=True)
    query = {"project": "archive"}
    assert [run["id"] for run in collector.get("/runs", archived="false", **query)["items"]] == [kept]
    assert [run["id"] for run in collector.get("/runs", archived="true", **query)["items"]] == [gone]
    assert len(collector.get("/runs", **query)["items"]) == 2
    assert collector.get(f"/runs/{gone}")["archived"]
    assert not change(collector, gone, archived=False)[1]["archived"]


@pytest.mark.parametrize(
    "body",
    [
        {"tags": [""]},
        {"tags": [" "]},
        {"tags": ["\x1c\n"]},
        {"tags": ["a\0b"]},
        {"tags": ["x"] * 33},
        {"title": "x" * 201},
        {"title": " " * 201},
        {"title": "a\nb"},
        {"title": "\u3164"},
        {"notes": "a\0b"},
        {"name": "x"},
        {"archived": None},
    ],
)
def test_a_label_that_cannot_be_stored_is_refused(collector, body):
    """Nothing of it is stored, and the answer names the field."""
    run_id = collector.run(run="refused", records=records(2))
    status, answer = change(collector, run_id, **body)
    assert (status, answer["error"]) == (422, "InvalidField")
    assert next(iter(body)) in answer["detail"]


def test_the_description_of_the_api_says_which_labels_can_be_stored(collector):
    """A client that obeys it is not refused: titles and tags are one line, and no text reverses the text after it."""
    labels = collector.pool.request("GET", f"{collector.url}/openapi.json").json()["components"]["schemas"]["RunLabels"]
    tag = labels["properties"]["tags"]["items"]["pattern"]
    title, notes = (labels["properties"][name]["anyOf"][0]["pattern"] for name in ("title", "notes"))
    for pattern in (tag, title, notes):
        assert not any(re.search(pattern, f"a{hidden}b") for hidden in "\0\x1b\u202e\u2066\u061c")
        assert re.search(pattern, " a b ")
    assert not any(re.search(pattern, "a\nb") for pattern in (tag, title))
    assert re.search(notes, "a\n\tb")
    assert [bool(re.search(pattern, " ")) for pattern in (tag, title, notes)] == [False, True, True]


def test_a_run_that_is_not_there_has_no_labels(collector):
    """404, as everywhere."""
    status, answer = change(collector, "nobody", title="x")
    assert (status, answer["error"]) == (404, "UnknownRun")


def test_a_run_shows_since_which_step_it_is_in_its_phase_and_its_pace(collector):
    """The median time of a step, and the first step of the current phase."""
    timed = [{"step": step, "time": 1.7e9 + 2 * step, "scalars": {"reward/mean": 0.5}} for step in range(5)]
    run_id = collector.run(run="paced", records=timed)
    found = collector.get(f"/runs/{run_id}")
    assert found["step_seconds"] == 2.0
    (phase,) = [span for span in collector.get(f"/runs/{run_id}/phases")["items"] if span["to_step"] is None]
    assert found["phase_from_step"] == phase["from_step"]
