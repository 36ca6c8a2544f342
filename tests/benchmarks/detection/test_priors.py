"""Priors from other runs: the learned values, the rows put before a run, and the names that identify a trainer."""

import json

import numpy as np
import pytest

from benchmarks.detection.priors import PriorVariant, learn, main, prepend, trainer_of
from benchmarks.detection.runs import Group, LabelledRun, Truth
from monitor_server.detection.protocol import Observation


def run(name, values):
    """Return a healthy run of one signal."""
    rows = [Observation(step=step, signals={"grad/norm": value}) for step, value in enumerate(values, start=1)]
    return LabelledRun(name=name, truth=Truth(group=Group.BENIGN, kind="healthy"), observations=rows)


def test_each_repository_counts_once_in_a_prior():
    """Noise is 1.4826 MAD / median of the first rows: 0 in all of one repository, 0.14826 and 0.29652 in two others."""
    steady, noisy, noisier = [1.0] * 8, [1.0, 1.1, 0.9] * 3, [1.0, 1.2, 0.8] * 3
    runs = [("TRL", run(f"a__{number}", steady)) for number in range(3)]
    runs += [("TRL", run("b__1", noisy)), ("verl", run("c__1", noisier))]
    priors = learn(runs)
    assert priors["any trainer"] == {"grad/norm": pytest.approx(0.14826)}
    assert priors["TRL"] == {"grad/norm": pytest.approx(0.14826 / 2)}
    assert priors["verl"] == {"grad/norm": pytest.approx(0.29652)}


def test_the_rows_of_a_prior_lie_around_the_first_two():
    """Their mean is that of rows 1 and 2, their spread that of the prior, and the run's own rows follow unchanged."""
    own = run("a__1", [2.0, 4.0, 9.0]).observations
    rows = prepend(own, {"grad/norm": 0.1, "kl/ref": 0.5}, PriorVariant(rows=16, times=2.0))
    assert rows[16:] == list(own)
    assert [row.step for row in rows] == list(range(-15, 4))
    values = [row.signals["grad/norm"] for row in rows[:16]]
    assert np.mean(values) == pytest.approx(3.0)
    assert np.std(values) == pytest.approx(2 * 0.1 * 3.0, rel=0.1)
    assert "kl/ref" not in rows[0].signals
    assert prepend(own, {"grad/norm": 0.1}, PriorVariant()) == list(own)


def test_a_trainer_is_known_by_the_names_of_its_metrics():
    """A name that several trainers share identifies none of them."""
    assert trainer_of({"signals": {"entropy": "actor_entropy"}}) == "verl"
    assert trainer_of({"signals": {"length": "completions/mean_length"}}) == "TRL"
    assert trainer_of({"signals": {"loss": "loss"}}) == "another"
    assert trainer_of({}) == "another"


def test_an_alarm_that_opened_before_its_rows_count_does_not_count(tmp_path, capsys):
    """The NaN of rows 0 and 1 are an alarm as shipped; with a prior the alarm opened too early, though it still holds.

    One corpus is a run folder, as for the other commands.
    """
    for name, broken in (("a__1", 2), ("b__1", 0)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "meta.json").write_text(json.dumps({"label": {"kind": "healthy"}}))
        rows = [
            {"step": step, "grad/norm": float("nan") if step < broken else 1.0, "reward/mean": 0.5 + 0.01 * (step % 3)}
            for step in range(20)
        ]
        (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["--corpus", str(tmp_path / "a__1"), "--corpus", str(tmp_path / "b__1")]) == 0
    shipped, *priors = [line for line in capsys.readouterr().out.splitlines() if "of 2" in line]
    assert "1 of 2" in shipped
    assert len(priors) == 13
    assert all("0 of 2" in line for line in priors[:-1])
