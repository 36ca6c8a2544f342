"""Suite C on folders made here."""

import gzip
import json

import pytest

from benchmarks.detection import main
from benchmarks.detection.runs import Group, Truth
from benchmarks.detection.scoring.traces import Mark, Trace
from benchmarks.detection.suites.real_logs.corpus import labelled_corpus
from benchmarks.detection.suites.real_logs.events import alarmed_within


def write_log(folder, name, rewards, label, *, stride=1):
    """Write one run in the form of shared/runs."""
    run = folder / name
    run.mkdir()
    rows = [json.dumps({"step": stride * row, "reward": reward}) for row, reward in enumerate(rewards)]
    (run / "data.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    (run / "meta.json").write_text(json.dumps({"label": label}))


def test_labels_become_truth_and_unclear_runs_are_left_out(tmp_path):
    """Negatives are benign, events carry their step, hard cases are set apart."""
    write_log(tmp_path, "a", [0.5] * 9, {"kind": "healthy", "step": None})
    write_log(tmp_path, "b", [0.5] * 9, {"kind": "reward_collapse", "step": 4.0})
    write_log(tmp_path, "c", [0.5] * 9, {"kind": "unclear", "step": None})
    write_log(tmp_path, "d", [0.5] * 9, {"kind": "length_explosion", "step": 3})
    found = {run.name: run.truth for run in labelled_corpus(tmp_path)}
    assert set(found) == {"a", "b", "d"}
    assert found["a"].group is Group.BENIGN
    assert (found["b"].group, found["b"].collapse) == (Group.FAILURE, 4)
    assert found["d"].group is Group.UNSCORED


def test_a_corpus_without_labels_is_refused(tmp_path):
    """Without labels there is nothing to score against."""
    write_log(tmp_path, "a", [0.5], {"kind": "unclear", "step": None})
    with pytest.raises(ValueError, match="label to score"):
        labelled_corpus(tmp_path)


def test_slack_after_an_event_counts_rows_not_steps():
    """Logged every 5 steps, an event at 20: three rows later is step 35."""
    truth = Truth(group=Group.FAILURE, kind="nan", onset=0, acceleration=0, collapse=20)

    def alarmed(step, slack):
        steps = list(range(0, 60, 5))
        trace = Trace.of("run", truth, steps, [Mark(warn=float(s == step)) for s in steps])
        return alarmed_within(trace, "warn", before=50, after=slack)

    assert alarmed(20, 0)
    assert not alarmed(25, 0)
    assert alarmed(35, 3)
    assert not alarmed(40, 3)


def test_suite_c_counts_what_a_rule_does(tmp_path, capsys):
    """A reward that falls to nothing is seen by the reward drop, at once after the event; a flat one is not."""
    write_log(tmp_path, "flat", [0.5] * 60, {"kind": "healthy", "step": None})
    write_log(tmp_path, "falls", [0.5] * 30 + [0.0] * 30, {"kind": "reward_collapse", "step": 30})
    assert main(["--suite", "c", "--corpus", str(tmp_path), "--no-peers", "--json"]) == 0
    drop = json.loads(capsys.readouterr().out)["c"]["reward drop 20 % / 50 %"]
    assert (drop["negatives"], drop["warned"], drop["events"]) == (1, 0, 1)
    assert (drop["warned_before"], drop["warned_by_3"], drop["paged_by_5"]) == (1, 1, 1)
