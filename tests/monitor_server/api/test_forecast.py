"""The forecast of a run over the API: after its newest step, and null where there is none."""

from tests.live import eventually


def drifting(last):
    """Return records of a run whose policy drifts from step 40 on."""
    rise = [0.004 * max(0, step - 40) for step in range(last)]
    return [
        {"step": step, "scalars": {"entropy/mean": 0.4 + drift, "likelihood/correct": -0.4 - drift, "reward/mean": 0.5}}
        for step, drift in enumerate(rise)
    ]


def test_a_run_that_drifts_has_a_forecast_with_its_drivers(collector):
    """Three horizons with probabilities above their base rates, and the drift named with the factor on the odds."""
    run_id = collector.run(run="drifting", records=drifting(120))
    eventually(lambda: (collector.get(f"/runs/{run_id}/forecast") or {}).get("step") == 119)
    found = collector.get(f"/runs/{run_id}/forecast")
    assert [horizon["within"] for horizon in found["horizons"]] == [10, 25, 50]
    assert all(horizon["probability"] > horizon["base_rate"] for horizon in found["horizons"])
    assert found["drivers"][0]["name"] == "drift"
    assert found["drivers"][0]["description"] == "the policy has drifted"
    assert found["drivers"][0]["odds_ratio"] > 1.0
    assert found["model"] == "likelihood"
    assert found["fitted_on"]


def test_a_collapsed_run_has_no_forecast(collector):
    """A NaN in the gradient is the collapse itself."""
    broken = [{"step": 10, "scalars": {"grad/norm": "NaN"}}]
    run_id = collector.run(run="broken", records=drifting(10) + broken)
    eventually(lambda: collector.get(f"/runs/{run_id}")["phase"] == "collapsed")
    assert collector.get(f"/runs/{run_id}/forecast") is None
