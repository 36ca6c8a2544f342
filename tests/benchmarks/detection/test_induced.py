"""Suite D: pairs of runs written here are judged by the twin, and a failure changes nothing before its onset."""

import dataclasses
import itertools
import math

import pytest

from benchmarks.detection import main
from benchmarks.detection.induced.failures import FAILURES, Cause, Failure
from benchmarks.detection.induced.pairs import Half, pairs
from benchmarks.detection.induced.record import write
from benchmarks.detection.induced.setting import Setting, TrainerKind

STEPS, ONSET = 60, 21


@pytest.fixture
def record(tmp_path):
    """Return a function that writes a pair, given the quality of the failing run from the onset on."""

    def record(number, after, *, reward=0.02, cause=Cause.GRADER_RANDOM, trainer="grpo"):
        meta = {"trainer": trainer, "failure": f"{cause}-1", "cause": cause, "is_sudden": True}
        meta |= {"number": number, "onset": ONSET}
        folder = tmp_path / trainer
        folder.mkdir(exist_ok=True)
        for kind, quality, level in (("failing", after, reward), ("healthy", 0.6, 0.6)):
            rows = [
                {
                    "step": step,
                    "quality": 0.6 if step < ONSET else quality,
                    "hooks": {
                        "reward/mean": (0.6 if step < ONSET else level) + 0.02 * (step % 2),
                        "entropy/mean": 0.3 if step < ONSET or kind == "healthy" else 1.5,
                    },
                    "log": {"reward": 0.6 if step < ONSET else level},
                }
                for step in range(1, STEPS + 1)
            ]
            write(folder / f"{cause}-1__{number}-{kind}.jsonl.gz", meta, rows)
        return tmp_path

    return record


def test_a_run_that_keeps_its_twins_quality_has_not_failed(record):
    """Three quarters of the twin's quality is the bound, and the loss is the first of ten rows below it."""
    record(0, 0.5)
    failed, kept = sorted(pairs(record(2, 0.3), "hooks"), key=lambda pair: not pair.has_failed)
    assert (failed.failing.truth.onset, failed.failing.truth.collapse) == (ONSET, ONSET)
    assert failed.has_failed
    assert not kept.has_failed


def test_pairs_of_odd_numbers_are_unseen(record):
    """They choose no rule, and neither do causes that were added when the rules were fixed."""
    record(0, 0.3)
    record(0, 0.3, cause=Cause.UNENDING)
    halves = [pair.half for pair in pairs(record(1, 0.3), "log")]
    assert halves == [Half.OPEN, Half.UNSEEN_SEEDS, Half.UNSEEN_CAUSES]


def test_pairs_that_were_recorded_when_the_rules_were_fixed_stand_apart(record):
    """None of their numbers is open, even or odd."""
    record(3, 0.3)
    record(4, 0.3)
    halves = [pair.half for pair in pairs(record(5, 0.3), "log")]
    assert halves == [Half.UNSEEN_SEEDS, Half.LATER_SEEDS, Half.LATER_SEEDS]


def test_pairs_of_another_trainer_stand_apart_and_are_not_listed(record, capsys):
    """No rule has seen a run of this trainer, so the number of the pair does not matter."""
    record(0, 0.3)
    folder = record(0, 0.1, trainer="rloo")
    assert [pair.half for pair in pairs(folder, "log")] == [Half.OPEN, Half.OTHER_TRAINER]
    assert main(["--suite", "d", "--induced", str(folder), "--no-peers"]) == 0
    _, _, other = capsys.readouterr().out.partition("RLOOTrainer, of which no rule has seen a run")
    assert "1 of 1" in other
    assert "grader_random-1" not in other


def test_suite_d_reports_each_half_and_what_did_not_fail(record, capsys):
    """A sudden failure that is warned, one that did not fail, and twins without an alarm."""
    record(0, 0.1)
    folder = record(1, 0.6)
    assert main(["--suite", "d", "--induced", str(folder), "--no-peers"]) == 0
    printed = capsys.readouterr().out
    assert "2 pairs" in printed
    assert "1 runs did not fail" in printed
    assert "0 of 1, 0.0 % [0.00, 0.97]" in printed  # a twin of each half
    assert "onset by row 15: warned within 5 rows" in printed


def test_suite_d_counts_the_failed_pairs_of_each_cause_and_names_causes_without_one(record, capsys):
    """Of the cause that was recorded the open pair did not fail, and the unseen one did."""
    record(0, 0.6)
    folder = record(1, 0.1)
    assert main(["--suite", "d", "--induced", str(folder), "--no-peers"]) == 0
    printed = capsys.readouterr().out
    assert "Of 1 of the 1 causes no run with an open seed failed (`grader_random`)" in printed
    line = next(line for line in printed.splitlines() if line.startswith("grader_random  "))
    assert line.split() == ["grader_random", "0", "of", "1", "1", "of", "1"]


def test_suite_d_counts_the_unseen_seeds_and_lists_them_nowhere(record, capsys):
    """Open pairs and later causes are listed by failure, and each half has its own title."""
    record(0, 0.1)
    record(1, 0.1)
    folder = record(1, 0.1, cause=Cause.UNENDING)
    assert main(["--suite", "d", "--induced", str(folder), "--no-peers"]) == 0
    open_seeds, _, rest = capsys.readouterr().out.partition("Unseen seeds of the same causes")
    unseen_seeds, _, causes = rest.partition("Causes that were added when the rules were fixed")
    assert "grader_random-1" in open_seeds
    assert "1 of 1" in unseen_seeds
    assert "grader_random-1" not in unseen_seeds + causes
    assert "unending-1" in causes


def test_without_recordings_suite_d_says_how_to_make_them(tmp_path, capsys):
    """An empty folder is no error."""
    assert main(["--suite", "d", "--induced", str(tmp_path), "--no-peers"]) == 0
    assert "make record-suite-d" in capsys.readouterr().out


def test_every_failure_has_a_name_of_its_own_and_each_cause_is_induced():
    """Recordings are named by them."""
    assert len({failure.name for failure in FAILURES}) == len(FAILURES)
    assert {failure.cause for failure in FAILURES} == set(Cause)


def test_a_slow_failure_grows_from_its_onset_to_its_level():
    """Nothing before the onset, a tenth at it, all of it after ten steps."""
    slow = Failure(cause=Cause.GRADER_RANDOM, level=1, ramp=10)
    assert [slow.amount(step, 5) for step in (4, 5, 14, 30)] == [0.0, 0.1, 1.0, 1.0]


def test_a_setting_leaves_a_slow_failure_the_time_to_show():
    """A run goes on for at least 15 steps after its failure has its full level, and one in three others is short."""
    slow = [Setting.drawn(seed, ramp=60) for seed in range(50)]
    sudden = [Setting.drawn(seed, ramp=0) for seed in range(50)]
    assert min(setting.steps - setting.onset for setting in slow) >= 65
    assert 5 < sum(setting.steps <= 40 for setting in sudden) < 30


def test_advantages_are_broken_as_their_failure_says():
    """The sign, the order and the epsilon; other causes and rows before the onset change nothing."""
    import torch  # noqa: PLC0415 - takes seconds to import

    from benchmarks.detection.induced.advantages import broken_advantages  # noqa: PLC0415 - imports it

    right = torch.tensor([1.0, -1.0, 0.5, -0.5, 0.0, 0.0, 0.0, 0.0])

    def broken(cause, amount=1.0):
        return broken_advantages(right, Failure(cause=cause, level=1), amount, age=0, group=4).tolist()

    assert broken(Cause.ADVANTAGE_SIGN) == (-right).tolist()
    assert broken(Cause.ADVANTAGE_SIGN, 0.5) == [0.0] * 8
    assert broken(Cause.ADVANTAGE_ORDER) != right.tolist()
    assert sorted(broken(Cause.ADVANTAGE_ORDER)) == sorted(right.tolist())
    assert broken(Cause.ADVANTAGE_EPSILON)[:4] == right.tolist()[:4]
    assert all(map(math.isnan, broken(Cause.ADVANTAGE_EPSILON)[4:]))
    assert broken(Cause.GRADER_RANDOM) == broken(Cause.ADVANTAGE_SIGN, 0.0) == right.tolist()


@pytest.mark.slow
def test_a_failure_changes_nothing_before_its_onset_in_the_other_trainer():
    """RLOO samples as GRPO does, and its batches are broken in the same places."""
    from benchmarks.detection.induced.training import train  # noqa: PLC0415 - torch and TRL take seconds to import

    setting = dataclasses.replace(Setting.drawn(0, ramp=0), steps=3, onset=2)
    chosen = [next(failure for failure in FAILURES if failure.cause is Cause.DEAD_ENVIRONMENT), None]
    failing, healthy = (train(setting, failure, TrainerKind.RLOO) for failure in chosen)
    assert failing[:1] == healthy[:1]
    assert failing[1:] != healthy[1:]
    assert {"reward/mean", "entropy/paired_delta"} <= healthy[1]["hooks"].keys()
    assert failing[1]["hooks"] != healthy[1]["hooks"]


@pytest.mark.slow
def test_twins_are_the_same_to_the_last_bit_until_the_failure_begins():
    """TRL trains both for a few steps; each failure of another part begins at the third step."""
    from benchmarks.detection.induced.training import train  # noqa: PLC0415 - torch and TRL take seconds to import

    setting = dataclasses.replace(Setting.drawn(0, ramp=0), steps=4, onset=3)
    healthy = train(setting, None)
    assert [row["step"] for row in healthy] == [1, 2, 3, 4]
    assert {"reward/mean", "entropy/paired_delta", "likelihood/correct"} <= healthy[1][
        "hooks"
    ].keys()  # every second step is scored again
    causes = (Cause.GRADER_INVERTED, Cause.SAMPLER_DRIFT, Cause.LEARNING_RATE, Cause.LOW_PRECISION)
    causes += (Cause.UNZEROED_GRADIENTS, Cause.OPTIMISER_RESET, Cause.TOKENISER_SHIFT)
    chosen = [next(failure for failure in FAILURES if failure.cause is cause) for cause in causes]
    for failing in (train(setting, failure) for failure in chosen):
        assert failing[:2] == healthy[:2]
        assert failing[2:] != healthy[2:]
    assert all(earlier["quality"] != later["quality"] for earlier, later in itertools.pairwise(healthy))
