"""The forecast as pages show it: raised, at the base rate, and absent."""

import asyncio

import pytest

from dashboard.collector_client.client import ApiClient
from dashboard.components.forecast import forecast_parts
from dashboard.pages.run import page
from monitor_server.detection.protocol import Phase
from tests.dashboard.callbacks import Callbacks
from tests.live import eventually
from tests.monitor_server.conftest import ScriptedEngine


def forecast(model="likelihood", probability=0.43, drivers=()):
    """Return a forecast of one horizon whose base rate is 0.0048."""
    return {
        "step": 1120,
        "horizons": [{"within": 10, "probability": probability, "base_rate": 0.0048}],
        "drivers": list(drivers),
        "model": model,
        "fitted_on": "264 runs",
    }


DRIFT = {"name": "drift", "description": "the policy has drifted", "odds_ratio": 6.692}


def test_a_raised_probability_stands_beside_its_base_rate_and_its_drivers(texts):
    """43 % beside 0.5 %, and the drift with its factor on the odds."""
    shown = " ".join(texts(forecast_parts(forecast(drivers=[DRIFT]))))
    assert "after step 1,120" in shown
    assert "within 10 rows  43 % base rate 0.5 %" in shown
    assert shown.endswith("Raised by: the policy has drifted (odds × 6.69).")


@pytest.mark.parametrize(
    ("model", "why"), [("likelihood", "No evidence raises"), ("metrics", "no signal of the likelihood side")]
)
def test_a_forecast_that_is_only_the_base_rate_says_so(model, why, texts):
    """It has no drivers; a run without likelihood signals can have no other forecast."""
    shown = " ".join(texts(forecast_parts(forecast(model, 0.0048))))
    assert why in shown
    assert "base rate" in shown


def test_no_probability_is_shown_as_none_or_as_certain(texts):
    """0.00002 is shown as less than 0.1 %, and 0.9964 as more than 99 %."""
    assert "> 99 %" in texts(forecast_parts(forecast(probability=0.9964)))
    assert "< 0.1 %" in texts(forecast_parts(forecast(probability=0.00002)))


def test_a_run_without_forecast_says_why(collector, texts):
    """A run that has sent no step: the API answers null, and the page has words for it."""
    run_id = collector.run(run="no-steps-yet", config={}, records=[])

    async def asking():
        async with ApiClient(collector.url) as api:
            return await api.runs.forecast(run_id)

    assert asyncio.run(asking()) is None
    assert "no step has been processed yet" in " ".join(texts(forecast_parts(None)))
    assert texts(forecast_parts(None, phase="collapsed")) == ["There is no forecast: the run has collapsed."]


def test_the_words_for_a_run_without_forecast_stay_when_it_is_read_again(start_collector, texts):
    """The forecast of an open page is read every ten seconds."""
    live = start_collector(engine=ScriptedEngine)
    collapsed = list(Phase).index(Phase.COLLAPSED)
    run_id = live.run(run="r", records=[{"step": 0, "scalars": {"phase": float(collapsed)}}])
    eventually(lambda: live.get(f"/runs/{run_id}")["phase"] == "collapsed")
    drawn = Callbacks(live.url, page).call("forecast", 1, {"run": run_id})
    assert texts(drawn) == ["There is no forecast: the run has collapsed."]
