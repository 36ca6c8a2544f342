"""After a rewind, a run's newest values are those of the attempt that goes on."""

import asyncio
import contextlib
from http.server import BaseHTTPRequestHandler

import pytest

from dashboard.pages.compare.comparison import ComparisonChoice, read_comparison
from dashboard.pages.fleet import curves
from dashboard.pages.run import workspace
from dashboard.pages.run.page_data import read_run
from tests.dashboard.callbacks import Callbacks
from tests.http_serving import serving_requests
from tests.live import eventually


@pytest.fixture
def live(start_collector):
    """A collector."""
    return start_collector()


@pytest.fixture
def run_id(live):
    """A run that went from step 40 back to 20 and is at step 25, with 0.75 in place of 0.5."""
    rows = [{"step": s, "time": 1e6 + s, "scalars": {"reward/mean": 0.5, "grad/norm": 0.5}} for s in range(41)]
    found = live.run(run="r", records=[*rows, {"step": 41, "time": 1e6 + 41, "scalars": {"eval/late": 0.5}}])
    again = [{"step": s, "time": 2e6 + s, "scalars": {"reward/mean": 0.75, "grad/norm": 0.75}} for s in range(20, 26)]
    live.send(run="r", attempt=2, records=again)
    eventually(lambda: live.get(f"/runs/{found}")["last_step"] == 25)
    return found


def test_the_header_shows_the_newest_values_of_the_attempt_that_goes_on(live, run_id):
    """Its curves still have the steps that the run has gone back behind."""
    read = asyncio.run(read_run(live.url, run_id))
    (vitals,) = [part for part in read.header() if getattr(part, "className", "") == "vitals"]
    shown = [getattr(vital.children[1], "data-number") for vital in vitals.children]
    assert [value for value in shown if value] == ["0.75", "0.75"]
    assert read.series["reward/mean"]["steps"][-1] == 40


@pytest.mark.parametrize("axis", ["step", "time"])
def test_a_panel_shows_the_newest_value_of_the_attempt_that_goes_on(live, run_id, axis):
    """On the axis of times its line does not run backwards."""
    view = {"signals": ["reward/mean", "eval/late"], "axis": axis}
    drawn = Callbacks(live.url, workspace).call("draw", view, {"run": run_id})
    assert drawn["reward/mean"]["newest"] == "0.75"
    places = drawn["reward/mean"]["figure"]["data"][0]["x"]
    assert places == sorted(places)
    assert len(places) == (41 if axis == "step" else 26)
    late = drawn["eval/late"]
    assert late["newest"] == "" if axis == "step" else "went back" in late["problem"]


def test_a_small_curve_of_the_fleet_ends_at_the_newest_step(live, run_id):
    """Otherwise the browser takes each pushed step for an older one, and reads the curve again."""
    for asked in (run_id, [run_id, 20]):  # the second form is that of a tab that was opened before an upgrade
        wanted = {"signal": "grad/norm", "runs": [asked]}
        curve = Callbacks(live.url, curves).call("read", wanted)["curves"][run_id]
        assert (curve["step"], curve["values"][-1]) == (25, 0.75)


@contextlib.contextmanager
def relaying(live, run_id, steps):
    """Relay to a collector; before each question about series the run takes its next step, of the value 2."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if "/series" in self.path:
                step = next(steps)
                live.send(run="r", attempt=2, records=[{"step": step, "scalars": {"reward/mean": 2.0}}])
                eventually(lambda: live.get(f"/runs/{run_id}")["last_step"] >= step)
            answer = live.pool.request("GET", live.url + self.path)
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            self.wfile.write(answer.data)

        def log_message(self, *_args):
            """Write nothing."""

    with serving_requests(Handler) as url:
        yield url


def test_a_step_that_comes_while_a_page_is_read_is_not_taken_for_one_of_a_given_up_attempt(live, run_id):
    """The newest value is shown in a panel, in a comparison and in the header of the run."""
    with relaying(live, run_id, iter(range(50, 100))) as url:
        view = {"signals": ["reward/mean"], "axis": "step"}
        assert Callbacks(url, workspace).call("draw", view, {"run": run_id})["reward/mean"]["newest"] == "2.0"
        choice = ComparisonChoice([run_id], ["reward/mean"], "step", False, False, 0.0, None)
        (compared,) = asyncio.run(read_comparison(url, choice)).runs
        assert compared.series["reward/mean"]["values"][-1] == 2.0
        read = asyncio.run(read_run(url, run_id))
        assert read.run["last_step"] >= read.series["reward/mean"]["steps"][-1]
