"""Whenever and wherever the looks at a growing log cut it, its findings are in the end those of the whole log."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor_server.importers.search.logs import find_logs
from monitor_server.log_check.examination import examine
from tests.monitor_server.log_check.looks import RESTS, followed
from tests.monitor_server.simulated_collectors import random_examples

STEPS = 36


def training(seed):
    """Return the numbers of each step; the entropy of many falls, and each ends in NaN."""
    draw = random.Random(seed)  # noqa: S311 - synthetic telemetry
    falls, dies = draw.randint(15, 2 * STEPS), draw.randint(15, 30)
    for step in range(1, STEPS + 1):
        entropy = 0.8 + draw.uniform(-0.02, 0.02)
        yield {
            "reward": 0.5 + draw.uniform(-0.05, 0.05),
            "entropy": entropy / 8 if step >= falls else entropy,
            "grad_norm": math.nan if step >= dies else 0.2 + draw.uniform(-0.02, 0.02),
        }


def lines(rows):
    """Print a step as one line of names and numbers."""
    return [
        f"step={step} " + " ".join(f"{name}={value:.4f}" for name, value in row.items()) + "\n"
        for step, row in enumerate(rows, 1)
    ]


def parts(rows):
    """Print a step as two JSON lines: that of the rollouts, and that of the update."""
    return [
        json.dumps({"step": step} | {name: row[name] for name in names}) + "\n"
        for step, row in enumerate(rows, 1)
        for names in (("reward",), ("entropy", "grad_norm"))
    ]


def table(rows):
    """Print a step as a row of a table."""
    cells = [f"{step}," + ",".join(f"{value:.4f}" for value in row.values()) for step, row in enumerate(rows, 1)]
    return [f"{line}\n" for line in ("step,reward,entropy,grad_norm", *cells)]


def bars(rows):
    """Print the dictionaries of some steps at once, as a buffer does, after the progress bar of the newest of them."""
    printed = []
    for step, row in enumerate(rows, 1):
        if step % 5 == 1:
            printed.append(f"\r {step * 100 // STEPS}%|##        | {step + 4}/{STEPS} [00:10<01:00, 2.1s/it]\r\n")
        printed.append(f"{row}\n")
    return printed


def course(found):
    """Return what an examination has of a log: its steps with their signals, its phases and its findings."""
    return (
        {signal: (each.steps, each.highs, each.non_finite) for signal, each in found.envelopes.items()},
        (found.rows, found.attempts, found.first_step, found.last_step, found.warn_step, found.page_step),
        [(span.phase, span.from_step, span.to_step) for span in found.phases],
        [(*_key(period.finding), period.last_step) for period in found.episodes],
    )


def _key(finding):
    return finding.kind, finding.step, finding.severity


@pytest.mark.parametrize("written", [lines, table, parts, bars])
@random_examples(3)
@given(seed=st.integers(0, 2**32))
def test_a_log_that_is_followed_ends_with_the_findings_of_its_check(tmp_path, written, seed):
    """Cut within lines and numbers, at rest or not, and in the file of an earlier run with the same seed or another."""
    draw = random.Random(seed)  # noqa: S311 - synthetic telemetry
    text, log = "".join(written(training(seed))), tmp_path / "x.log"
    if written in (parts, bars) and draw.choice((True, False)):
        text = text.rstrip()  # a row in braces has an end of its own
    former = draw.choice((None, seed, seed + 1))
    log.write_text("" if former is None else "".join(written([*training(former), *training(former + 2)])))
    looks = list(RESTS)
    for cut in sorted(draw.sample(range(1, len(text)), 6)):
        looks += [lambda cut=cut: log.write_text(text[:cut]), *draw.choice(([], RESTS))]
    looks += [lambda: log.write_text(text), *RESTS]
    changes = followed(log, *looks, looks=len(looks))
    found, whole = changes[-1].examination, examine(*find_logs([log]))
    assert course(found) == course(whole)
    begun = max((place for place, change in enumerate(changes) if change.is_replaced), default=0)
    said = [_key(finding) for change in changes[begun:] for finding in change.began]
    assert len(said) == len(set(said))
    expected = {_key(period.finding) for period in whole.episodes}
    # A step that was read in part may have had a finding that the whole step has not.
    assert set(said) == expected if written in (lines, table) else set(said) >= expected
