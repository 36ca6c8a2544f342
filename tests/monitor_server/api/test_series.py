"""Series: whole when short, thinned to their extremes when long."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.store.repositories.series.columns import Column
from monitor_server.store.repositories.series.downsampling import downsample
from tests.live import eventually
from tests.store_connections import engine_of


def _column(values):
    steps = np.arange(len(values)) * 3
    return Column(signal="a", steps=steps, values=np.array(values, dtype=np.float64), times=steps / 2.0)


def test_a_short_series_is_given_whole():
    """A series with no more points than allowed is returned unchanged."""
    column = _column([1.0] * 10)
    assert downsample(column, max_points=10) is column


@given(values=st.lists(st.floats(), min_size=11, max_size=400), max_points=st.integers(10, 50))
def test_extremes_and_ends_are_kept(values, max_points):
    """At most so many points, in order, each a true one, among them the first, the last and each kind of no number.

    So are the least, the largest and the newest number, whatever stands beside them.
    """
    thin = downsample(_column(values), max_points=max_points)
    assert len(thin.steps) <= max_points
    assert list(thin.steps) == sorted(set(thin.steps.tolist()))
    np.testing.assert_array_equal(thin.values, [values[step // 3] for step in thin.steps.tolist()])
    assert (thin.steps[0], thin.steps[-1]) == (0, 3 * (len(values) - 1))
    assert set(map(str, thin.values[~np.isfinite(thin.values)])) == {str(v) for v in values if not math.isfinite(v)}
    numbers, kept = [value for value in values if math.isfinite(value)], thin.values[np.isfinite(thin.values)]
    assert not numbers or (min(numbers), max(numbers), numbers[-1]) == (kept.min(), kept.max(), kept[-1])


def test_many_nans_leave_most_places_to_the_numbers():
    """With a NaN in every hundredth step of a long run, a fourth of the points at most are NaN."""
    values = np.sin(np.arange(10_000))
    values[::100], values[5_001] = math.nan, 80.0
    thin = downsample(_column(values), max_points=200)
    assert len(thin.steps) > 190
    assert 0 < np.isnan(thin.values).sum() <= 50
    assert 80.0 in thin.values


@given(values=st.lists(st.floats(width=32), min_size=11, max_size=400), max_points=st.integers(10, 50))
def test_means_hold_every_number(values, max_points):
    """At most so many means, the last one at the last step; weighted by their counts they give the mean of all."""
    means = downsample(_column(values), max_points=max_points, statistic="mean")
    numbers = [value for value in values if math.isfinite(value)]
    assert len(means.steps) <= max_points
    assert means.steps[-1] == 3 * (len(values) - 1)
    assert means.counts.sum() == len(numbers)
    assert np.isfinite(means.values).tolist() == (means.counts > 0).tolist()
    held = means.counts > 0
    total = math.fsum(means.values[held] * means.counts[held])
    assert total == pytest.approx(math.fsum(numbers), rel=1e-9, abs=1e-9 * max(map(abs, numbers), default=0.0))


def test_series_are_cut_and_thinned_by_the_query(collector, run_name):
    """A range of steps, both ends included, of the signals asked for; an unknown signal is empty."""
    records = [{"step": step, "scalars": {"a": step, "b": -step}} for step in range(100)]
    run_id = collector.run(run=run_name, records=records)
    path = f"/runs/{run_id}/series"
    first, second = collector.get(path, signals="a", from_step=10, to_step=12)["items"], collector.get(path)["items"]
    assert first == [{"signal": "a", "steps": [10, 11, 12], "values": [10.0, 11.0, 12.0]}]
    assert [item["signal"] for item in second] == ["a", "b"]
    assert len(collector.get(path, signals="a", max_points=10)["items"][0]["steps"]) <= 10
    assert collector.get(path, signals="none")["items"] == [{"signal": "none", "steps": [], "values": []}]


def test_means_are_returned_if_asked_for(collector, run_name):
    """The mean of the finite values of each section, at its last step, with their number; a short signal is whole."""
    values = [1.0, "NaN", 3.0, *range(4, 21)]
    run_id = collector.run(run=run_name, records=[{"step": at, "scalars": {"a": v}} for at, v in enumerate(values)])
    path = f"/runs/{run_id}/series"
    (means,) = collector.get(path, signals="a", statistic="mean", max_points=10, times=True)["items"]
    assert means["steps"] == [*range(1, 20, 2)]
    assert means["values"] == [1.0, *(step + 0.5 for step in range(3, 20, 2))]
    assert means["counts"] == [1] + [2] * 9
    assert len(means["times"]) == 10
    (whole,) = collector.get(path, signals="a", statistic="mean", to_step=2)["items"]
    assert whole == {"signal": "a", "steps": [0, 1, 2], "values": [1.0, "NaN", 3.0], "counts": [1, 0, 1]}


def test_a_signal_that_comes_later_or_pauses_has_only_its_own_steps(collector, run_name):
    """A step without the signal is absent from its series, and is neither 0 nor NaN."""
    scalars = [{"a": 1.0}, {"a": 2.0, "b": 3.0}, {"b": "NaN"}]
    records = [{"step": step, "scalars": values} for step, values in enumerate(scalars)]
    run_id = collector.run(run=run_name, records=records)
    assert collector.get(f"/runs/{run_id}/series")["items"] == [
        {"signal": "a", "steps": [0, 1], "values": [1.0, 2.0]},
        {"signal": "b", "steps": [1, 2], "values": [3.0, "NaN"]},
    ]


@pytest.mark.parametrize("first", [0, 3_000_000_000], ids=["from 0", "beyond 32 bits"])
def test_steps_are_given_in_parts(collector, run_name, first):
    """A client that follows `next` receives every step once, in order."""
    steps = range(first, first + 7)
    run_id = collector.run(run=run_name, records=[{"step": step, "scalars": {"a": 1.0}} for step in steps])
    found, cursor = [], {}
    while cursor is not None and len(found) <= len(steps):
        page = collector.get(f"/runs/{run_id}/steps", limit=3, **cursor)
        found += [step["step"] for step in page["items"]]
        cursor = {"cursor": page["next"]} if page["next"] else None
    assert found == list(steps)


def test_the_time_of_each_step_is_returned_if_asked_for(collector, run_name):
    """Seconds since 1970 at which the trainer recorded each step; left out otherwise."""
    records = [{"step": step, "time": 1.7e9 + step, "scalars": {"a": 1.0}} for step in range(3)]
    run_id = collector.run(run=run_name, records=records)
    (timed,) = collector.get(f"/runs/{run_id}/series", signals="a", times=True)["items"]
    (plain,) = collector.get(f"/runs/{run_id}/series", signals="a")["items"]
    assert timed["times"] == [1.7e9, 1.7e9 + 1, 1.7e9 + 2]
    assert "times" not in plain


def test_series_of_many_signals_are_given_in_bounded_parts(collector, run_name):
    """No answer holds more than 50,000 points or 8 MB; following `next` gives every point once, in order."""
    signals = [f"s{number:02}" for number in range(80)]
    for begin in range(0, 1400, 700):
        records = [
            {"step": step, "scalars": {name: step / 3 + place for place, name in enumerate(signals)}}
            for step in range(begin, begin + 700)
        ]
        run_id = collector.run(run=run_name, records=records)
    found, cursor, parts = {name: [] for name in signals}, {}, 0
    while cursor is not None:
        answer = collector.pool.request(
            "GET", f"{collector.url}/api/v1/runs/{run_id}/series", fields={"max_points": 10_000} | cursor
        )
        part, parts = answer.json(), parts + 1
        assert len(answer.data) < 8_000_000
        assert sum(len(item["steps"]) for item in part["items"]) <= 50_000
        for item in part["items"]:
            found[item["signal"]] += zip(item["steps"], item["values"], strict=True)
        cursor = {"cursor": part["next"]} if part["next"] else None
    assert parts == 3
    assert all(found[name] == [(s, s / 3 + place) for s in range(1400)] for place, name in enumerate(signals))


def test_a_client_that_does_not_read_its_answer_holds_no_connection_of_the_store(collector, run_name):
    """The read transaction has ended by the time when the answer is sent."""
    run_id = collector.run(run=run_name, records=[{"step": step, "scalars": {"a": 1.0}} for step in range(3)])
    pool = engine_of(collector.app.state.collector.store).pool
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        await asyncio.to_thread(eventually, lambda: pool.checkedout() == 0)  # the projector has one for a moment
        sent.append(message["type"])

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": f"/api/v1/runs/{run_id}/series",
        "query_string": b"",
        "headers": [(b"host", collector.url.removeprefix("http://").encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1),
    }
    asyncio.run(collector.app(scope, receive, send))
    assert sent[0] == "http.response.start"


def test_more_readers_at_once_than_connections_of_the_store_are_all_answered(collector, run_name):
    """No reader holds a connection while it waits for a thread that waits for a connection."""
    records = [{"step": step, "scalars": {"a": 1.0, "b": 2.0}} for step in range(100)]
    run_id = collector.run(run=run_name, records=records)
    asked = f"{collector.url}/api/v1/runs/{run_id}/series"
    with urllib3.PoolManager(maxsize=80) as pool, ThreadPoolExecutor(80) as threads:
        answers = list(threads.map(lambda _: pool.request("GET", asked, timeout=60, retries=False).status, range(120)))
    assert set(answers) == {200}
