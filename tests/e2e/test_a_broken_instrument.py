"""A loop that reports numbers of a wrong temperature: found by a real collector, and named before anything else."""

import pytest
import torch
from torch import nn

import trainer_hooks
from tests.live import PATIENCE_SECONDS
from trainer_hooks.probes.recomputation import RecomputationProbe, ReportedResponses

STEPS = 6


def train(url, run, *, reported_at, breaks_at=None):
    """Train a tiny model on its own samples at temperature 0.5; the reported numbers are those of `reported_at`."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with trainer_hooks.connect(url, project="instrument", run=run) as monitor:
        probe = RecomputationProbe(1, on_error=monitor.drops.count_error)
        for step in range(1, STEPS + 1):
            tokens = torch.randint(8, (4, 6))
            table = (model(tokens)[:, :-1] / reported_at).log_softmax(-1)
            logprobs = nn.functional.pad(table.gather(2, tokens[:, 1:, None])[:, :, 0], (1, 0))
            logprobs[:, 1:].mean().neg().backward()
            mask = torch.ones(4, 6, dtype=torch.bool)
            mask[:, 0] = False
            reported = ReportedResponses(tokens, mask, logprobs, temperature=0.5)
            recomputed = probe.recompute(model, reported, forward=lambda ids, _: model(ids))
            optimizer.step()
            optimizer.zero_grad()
            norm = float("nan") if step == breaks_at else 1.0
            monitor.log_step(step, {"reward/mean": 0.5}, grad_norm=norm, recomputed=recomputed)
            probe.after_step()
        assert monitor.flush(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def runs(collector):
    """The alerts by kind, and the recomputed gaps, of a run that reports right numbers and of one that does not."""
    train(collector.url, "right", reported_at=0.5, breaks_at=STEPS)
    train(collector.url, "wrong", reported_at=1.0, breaks_at=STEPS)
    found = {}
    for run in collector.get("/runs", project="instrument")["items"]:
        alerts = collector.get(f"/runs/{run['id']}/alerts")["items"]
        (series,) = collector.get(f"/runs/{run['id']}/series", signals="instrument/logprob_abs")["items"]
        found[run["name"]] = {alert["kind"]: alert for alert in alerts}, series
    return found


def test_the_gap_of_a_right_trainer_is_rounding_and_opens_no_alert(runs):
    """Every step is compared, and the only alert is that of the NaN, whose numbers nothing makes doubtful."""
    alerts, series = runs["right"]
    assert series["steps"] == list(range(1, STEPS + 1))
    assert max(series["values"]) < 1e-5
    assert alerts.keys() == {"non_finite"}
    assert alerts["non_finite"]["instrument_alerts"] == []


def test_a_wrong_temperature_is_a_warning_at_the_third_comparison(runs):
    """The alert points at the instrument, and its evidence is the gap."""
    alerts, series = runs["wrong"]
    assert min(series["values"]) > 0.05
    alert = alerts["instrument_gap"]
    assert (alert["opened_step"], alert["severity"], alert["state"]) == (3, "warning", "firing")
    assert (alert["suspect"], alert["instrument_alerts"]) == ("instrument", [])
    assert alert["evidence"]["signal"] == "instrument/logprob_abs"


def test_another_alert_of_that_run_says_that_the_instrument_comes_first(runs, collector):
    """The API and the incident report of the NaN name the alert that makes its numbers doubtful."""
    alerts, _ = runs["wrong"]
    alert = alerts["non_finite"]
    assert (alert["suspect"], alert["instrument_alerts"]) == ("unknown", ["instrument_gap"])
    assert collector.get(f"/alerts/{alert['id']}")["instrument_alerts"] == ["instrument_gap"]
    report = collector.pool.request("GET", f"{collector.url}/api/v1/alerts/{alert['id']}/incident").data.decode()
    assert "Check the instrument first, because of instrument gap on this run." in report
