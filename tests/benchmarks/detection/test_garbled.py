"""Garbled responses: each text is garbled as described, and the page has the numbers that the command prints."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.detection.garbled.authored import FAILURES, HEALTHY, make_run
from benchmarks.detection.garbled.garbling import GARBLINGS
from benchmarks.detection.garbled.loops import compare
from benchmarks.detection.garbled.record import RECORDINGS
from benchmarks.detection.garbled.report import recorded, text_findings
from benchmarks.detection.results_page.tables import as_markdown

PAGE = Path(__file__).parents[3] / "docs" / "detectors" / "garbled_text.md"
TOKENS = np.arange(1, 49).reshape(2, 24)
MASK = np.ones((2, 24), bool)
MASK[0, [0, 12]] = MASK[1, :3] = False


@pytest.mark.parametrize("name", GARBLINGS)
def test_only_action_tokens_of_the_chosen_responses_are_garbled(name):
    """Half of two responses is one; its prompt and feedback stay."""
    garbled = GARBLINGS[name].apply(TOKENS, MASK, 0.5, 100, np.random.default_rng(0))
    changed = garbled != TOKENS
    assert changed.any(axis=1).sum() == 1
    assert not (changed & ~MASK).any()


def test_each_garbling_is_what_its_name_says():
    """A loop repeats its beginning, a language keeps the order in new ids, and a shuffle keeps the ids."""
    rng = np.random.default_rng(1)
    ids = np.arange(40)
    loop = GARBLINGS["loop"].garble(ids, 100, rng)
    period = len(set(loop.tolist()))
    assert period <= 8
    assert (loop[period:] == loop[:-period]).all()
    assert (GARBLINGS["another language"].garble(ids, 100, rng) == ids + 100).all()
    assert sorted(GARBLINGS["words in no order"].garble(ids, 100, rng).tolist()) == ids.tolist()
    assert GARBLINGS["random tokens"].garble(ids, 100, rng).max() < 100


def test_an_authored_run_is_the_same_every_time_and_healthy_until_its_onset():
    """The seed is all that decides, and no run of this seed is found before its text is garbled."""
    first, again = (make_run("language, sudden", 3) for _ in range(2))
    assert repr(first.observations) == repr(again.observations)
    found = text_findings(first.observations)
    assert first.onset is not None
    assert found[0].step in range(first.onset, first.onset + 6)
    assert found[0].form == first.form == "language"
    assert {kind for kind in HEALTHY if make_run(kind, 3).onset is not None} == set()
    assert len(FAILURES) == 9


def test_the_page_has_the_tables_that_the_command_prints():
    """Recorded responses and the statistics of loops, computed here; the authored ones take too long."""
    page = PAGE.read_text()
    seeds = sorted(int(path.name[4:].split(".")[0]) for path in RECORDINGS.glob("seed*.jsonl.gz"))
    for table in (*recorded(RECORDINGS, [seed for seed in seeds if seed % 2]), compare()):
        lines = as_markdown([type("S", (), {"title": "", "notes": (), "tables": [table]})()]).splitlines()
        assert [line for line in lines if line.startswith(("|", "**")) and line not in page.splitlines()] == []
    assert "`python -m benchmarks.detection.garbled --markdown`" in page
