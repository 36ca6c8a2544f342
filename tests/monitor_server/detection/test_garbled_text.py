"""Garbled text: each form is found and named, and similar healthy text is not."""

import random

import pytest

from monitor_server.detection.base_classes.example_episodes import episodes
from monitor_server.detection.detectors.garbled_text import GarbledText
from monitor_server.detection.detectors.repetition import Repetition
from monitor_server.detection.protocol import Observation

HEALTHY = {
    "text/looping_frac": 0.01,
    "text/unseen_frac": 0.02,
    "text/usual_frac": 0.52,
    "text/unseen_pairs_frac": 0.08,
    "entropy/mean": 0.6,
    "likelihood/incorrect": -0.7,
}


def findings(changes, *, rows=40, bad_rows=12, over=1, healthy=HEALTHY):
    """Run the detector over healthy rows and then some that change within ``over`` rows; return the findings by row."""
    noise, judge, found = random.Random(3), GarbledText(), []  # noqa: S311 - synthetic telemetry
    for step in range(rows + bad_rows):
        share = min(1.0, max(0.0, (step - rows + 1) / over))
        values = {name: value + share * (changes.get(name, value) - value) for name, value in healthy.items()}
        signals = {name: value * (1.0 + 0.02 * noise.gauss(0, 1)) for name, value in values.items()}
        found.append(judge.update(Observation(step=step, signals=signals)))
    return found


FORMS = [
    ("loop", "repetition", {"text/looping_frac": 0.2, "entropy/mean": 0.4}),
    ("language", "garbled_text", {"text/unseen_frac": 0.4, "text/usual_frac": 0.3, "text/unseen_pairs_frac": 0.5}),
    ("gibberish", "garbled_text", {"text/unseen_pairs_frac": 0.5, "entropy/mean": 2.5}),
    ("gibberish", "garbled_text", {"text/unseen_pairs_frac": 0.5, "likelihood/incorrect": -4.0}),
    (
        "gibberish",
        "garbled_text",
        {
            "text/unseen_frac": 0.4,
            "text/usual_frac": 0.3,
            "text/unseen_pairs_frac": 0.7,
            "entropy/mean": 3.0,
        },
    ),
]


@pytest.mark.parametrize(
    ("form", "kind", "changes"), FORMS, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_each_form_is_found_and_named(form, kind, changes):
    """One finding a row, from the third or fourth bad row on at the latest, and none in the healthy ones."""
    found = findings(changes)
    assert not any(found[:40])
    assert [[(f.kind, f.evidence["form"]) for f in row] for row in found[43:]] == [[(kind, form)]] * 9


@pytest.mark.parametrize(
    "changes",
    [
        {"text/unseen_frac": 0.3},  # new topics: the words between the new ones are the usual ones
        {"text/usual_frac": 0.3},  # another style of familiar words
        {"text/unseen_pairs_frac": 0.5},  # familiar words in new combinations, which the policy expects
        {"entropy/mean": 2.5, "likelihood/incorrect": -4.0, "text/unseen_pairs_frac": 0.12},  # a higher temperature
    ],
    ids=" ".join,
)
def test_what_resembles_garble_is_no_finding(changes):
    """One sign alone is healthy."""
    assert not any(findings(changes))


def test_what_grows_slowly_is_found_against_the_first_rows():
    """Over 300 rows the newest 40 always look like those before; the finding stays while the level does."""
    changes = {"text/unseen_frac": 0.9, "text/usual_frac": 0.1}
    found = findings(changes, bad_rows=360, over=300)
    opened = next(row for row, held in enumerate(found) if held)
    assert 100 < opened < 200
    assert all(found[opened:])
    assert found[opened][0].evidence["baseline"] == pytest.approx(0.02, rel=0.1)


def test_code_that_repeats_itself_hides_loops_from_repetition_alone():
    """From 0.45 no share doubles to above 0.9 where four in five responses loop; the share of loops shows them."""
    rows = [0.45, 0.46, 0.44] * 6 + [0.8] * 6
    looping = [0.1, 0.12, 0.08] * 6 + [0.8] * 6
    assert episodes(Repetition(), {"text/repetition": rows}) == []
    assert episodes(GarbledText(), {"text/looping_frac": looping}) == [(19, "repetition", "warning")]


def test_new_data_begin_a_new_baseline():
    """Where the prompts are declared as new data, unseen tokens are no finding."""
    judge = GarbledText()
    for step in range(80):
        bad = step >= 40
        signals = {"text/unseen_frac": 0.4 if bad else 0.01 * (step % 3), "text/usual_frac": 0.3 if bad else 0.52}
        assert not judge.update(Observation(step=step, signals=signals, data_version=str(bad)))
