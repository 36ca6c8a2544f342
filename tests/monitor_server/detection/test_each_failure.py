"""Each detector finds the failure it is named after, ignores one bad row, and ends its finding on recovery."""

import math
import random

import pytest

from monitor_server.detection.base_classes.shift import ShiftDetector
from monitor_server.detection.protocol import Observation
from monitor_server.detection.registry import DETECTORS
from tests.monitor_server.detection.subjects import SpiralWithDrifts

# Detector, signals of a healthy row, changes in a bad row, the expected kind, and the row (from 0) of the alarm where
# rows are bad from 40 on.
SHIFTS = [
    ("entropy_explosion", {"entropy/mean": 0.3}, {"entropy/mean": 1.5}, "entropy_explosion", 41),
    ("clip_surge", {"ratio/clip_frac": 0.001}, {"ratio/clip_frac": 0.02}, "clip_surge", 41),
    ("reward_fall", {"reward/mean": 0.6}, {"reward/mean": 0.02}, "reward_fall", 41),
    ("reward_loss", {"reward/mean": 0.6}, {"reward/mean": 0.3}, "reward_fall", 42),
    ("accuracy_loss", {"reward/correct_frac": 0.6}, {"reward/correct_frac": 0.1}, "reward_fall", 42),
    (
        "verdict_gap",
        {"likelihood/correct": -0.2, "likelihood/incorrect": -1.2},
        {"likelihood/correct": -1.1},
        "reward_signal_dead",
        41,
    ),
    (
        "verdict_decline",
        {"likelihood/correct": -0.2, "likelihood/incorrect": -1.2},
        {"likelihood/correct": -0.5},
        "reward_signal_dead",
        43,
    ),
    ("gradient_explosion", {"grad/norm": 0.5}, {"grad/norm": 40.0}, "gradient_explosion", 44),
    ("reward_leap", {"reward/mean": 0.4}, {"reward/mean": 2.0}, "reward_hacking", 41),
    ("gradient_spike", {"grad/norm": 0.5}, {"grad/norm": 90.0}, "gradient_explosion", 41),
    ("kl_runaway", {"kl/ref": 0.05}, {"kl/ref": 4.0}, "kl_runaway", 42),
    ("mismatch_growth", {"mismatch/kl": 0.002}, {"mismatch/kl": 0.1}, "mismatch_growth", 41),
    ("length_rise", {"length/mean": 200.0}, {"length/mean": 900.0}, "length_explosion", 41),
    ("length_fall", {"length/mean": 200.0}, {"length/mean": 9.0}, "length_collapse", 41),
    ("tool_use_collapse", {"tools/calls": 1.8}, {"tools/calls": 0.1}, "tool_use_collapse", 41),
    ("control_tokens", {"control/prob": 0.95}, {"control/prob": 0.5}, "control_token_anomaly", 41),
    ("repetition", {"text/repetition": 0.1}, {"text/repetition": 0.6}, "repetition", 41),
    (
        "garbled_text",
        {"text/unseen_frac": 0.02, "text/usual_frac": 0.52},
        {"text/unseen_frac": 0.5, "text/usual_frac": 0.3},
        "garbled_text",
        41,
    ),
    ("silent_groups", {"reward/zero_std_frac": 0.2}, {"reward/zero_std_frac": 1.0}, "reward_signal_dead", 45),
    ("router_collapse", {"moe/load_entropy": 2.0}, {"moe/load_entropy": 0.5}, "router_collapse", 41),
    ("attention_collapse", {"qk/spectral_entropy": 3.0}, {"qk/spectral_entropy": 1.0}, "attention_collapse", 41),
    ("ratio_tail", {"ratio/p999": 1.3}, {"ratio/p999": 9.0}, "ratio_tail", 43),
    ("truncation", {"length/truncated_frac": 0.05}, {"length/truncated_frac": 0.7}, "truncation", 41),
    ("control_spike", {"control/share": 0.1}, {"control/share": 0.5}, "control_token_spike", 41),
    (
        "dead_environment",
        {"reward/mean": 0.6, "entropy/mean": 0.3, "kl/old": 0.001},
        {"reward/mean": 0.02},
        "dead_environment",
        42,
    ),
    ("off_policy", {"ratio/ess_frac": 0.95}, {"ratio/ess_frac": 0.2}, "off_policy_blowup", 41),
    (
        "joint_departure",
        {"entropy/mean": 0.3, "length/truncated_frac": 0.05, "reward/mean": 0.6},
        {"entropy/mean": 0.7, "length/truncated_frac": 0.8},
        "joint_departure",
        41,
    ),
    (
        "run_collapsed",
        {"reward/mean": 0.6, "entropy/mean": 0.3, "length/mean": 100.0},
        {"reward/mean": 0.02, "entropy/mean": 2.0, "length/mean": 400.0},
        "run_collapsed",
        41,
    ),
    (
        "reward_hacking",
        {"reward/mean": 0.5, "length/mean": 200.0, "tools/calls": 1.5},
        {"length/mean": 20.0, "tools/calls": 0.1},
        "reward_hacking",
        41,
    ),
]
# These report at the first bad row, because they have no noise to wait out.
AT_ONCE = [
    ("sampler_mismatch", {"mismatch/ratio": 1.0}, {"mismatch/ratio": 0.2}, "sampler_mismatch", 40),
    ("loss_explosion", {"loss/policy": 0.1}, {"loss/policy": 5e4}, "loss_explosion", 40),
    ("entropy_collapse", {"entropy/mean": 0.5}, {"entropy/mean": 1e-5}, "entropy_collapse", 40),
    ("rate_rise", {"lr": 1e-6}, {"lr": 1e-5}, "learning_rate_rise", 40),
]
CASES = [*SHIFTS, *AT_ONCE]
NAMES = [case[0] for case in CASES]


def _rows(name):
    """Return how many rows a detector's level is the median of, 0 if it has no such level."""
    detector = DETECTORS[name]
    return detector.size.rows if issubclass(detector, ShiftDetector) else 0


def kinds(name, healthy, bad, *, bad_rows, after=0):
    """Run a detector over 40 healthy rows, some bad ones and healthy ones again; return the kinds at each row."""
    noise, judge, reported = random.Random(5), DETECTORS[name](), []  # noqa: S311 - synthetic telemetry
    rows = [healthy] * 40 + [healthy | bad] * bad_rows + [healthy] * after
    for step, row in enumerate(rows):
        signals = {signal: value * (1.0 + 0.02 * noise.gauss(0, 1)) for signal, value in row.items()}
        reported.append({finding.kind for finding in judge.update(Observation(step=step, signals=signals))})
    return reported


@pytest.mark.parametrize(("name", "healthy", "bad", "kind", "row"), CASES, ids=NAMES)
def test_it_finds_its_failure_at_its_row_and_nothing_before(name, healthy, bad, kind, row):
    """Forty healthy rows are silent, and the failure is reported by its name at exactly the row that is stated."""
    found = kinds(name, healthy, bad, bad_rows=12)
    assert not any(found[:40])
    assert next(index for index, held in enumerate(found) if kind in held) == row


# The level of two rows is their mean, which one very large row can move: those detectors trade that for a row of lead.
PATIENT_NAMES = {"off_policy", "reward_hacking", "verdict_decline", "gradient_spike", "reward_leap", "garbled_text"}
PATIENT = [case[:4] for case in SHIFTS if case[0] in PATIENT_NAMES or _rows(case[0]) > 2]


@pytest.mark.parametrize(("name", "healthy", "bad", "kind"), PATIENT, ids=lambda value: str(value)[:18])
def test_one_bad_row_is_not_a_failure(name, healthy, bad, kind):
    """Where the level is a median of three rows or more, a single outlier gives no finding, however large."""
    assert not any(kind in row for row in kinds(name, healthy, bad, bad_rows=1, after=12))


SPIKY = [case[:4] for case in SHIFTS if case[0] in {"gradient_explosion", "ratio_tail"}]


@pytest.mark.parametrize(("name", "healthy", "bad", "kind"), SPIKY, ids=lambda value: str(value)[:18])
@pytest.mark.parametrize("apart", [7, 20])
def test_updates_may_spike_for_three_rows(name, healthy, bad, kind, apart):
    """Spikes of one to three rows belong to healthy training, one alone or several some rows apart."""
    noise, judge = random.Random(6), DETECTORS[name]()  # noqa: S311 - synthetic telemetry
    for step in range(140):
        row = healthy | (bad if step >= 40 and step % apart < 3 else {})
        signals = {signal: value * (1.0 + 0.02 * noise.gauss(0, 1)) for signal, value in row.items()}
        assert kind not in {finding.kind for finding in judge.update(Observation(step=step, signals=signals))}


@pytest.mark.parametrize(("name", "healthy", "bad", "kind"), [case[:4] for case in CASES], ids=NAMES)
def test_it_ends_when_the_run_has_recovered(name, healthy, bad, kind):
    """Sixty healthy rows after twelve bad ones, nothing is held any more."""
    assert kind not in kinds(name, healthy, bad, bad_rows=12, after=60)[-1]


@pytest.mark.parametrize(
    "policy", [{}, {"entropy/mean": 1.5}, {"kl/old": 0.5}], ids=["not observed", "entropy moved", "policy stepped far"]
)
def test_an_environment_is_not_blamed_unless_the_policy_is_seen_to_stand(policy):
    """The reward falls, and the policy moved with it or is not observed: that is no dead environment."""
    healthy = {"reward/mean": 0.6} | ({"entropy/mean": 0.3, "kl/old": 0.001} if policy else {})
    reported = kinds("dead_environment", healthy, {"reward/mean": 0.02} | policy, bad_rows=12)
    assert not any(reported)


def test_a_dead_tool_is_named_beside_the_fallen_reward():
    """Valid tool calls that vanish with the reward agree that the environment is dead."""
    judge, agreeing = DETECTORS["dead_environment"](), []
    for step in range(50):
        dead = step >= 40
        signals = {"reward/mean": 0.01 if dead else 0.6, "entropy/mean": 0.3, "tools/valid_frac": 0.02 if dead else 0.9}
        signals["reward/mean"] += 0.001 * (step % 3)
        agreeing += [f.evidence["agreeing"] for f in judge.update(Observation(step=step, signals=signals))]
    assert ["tools/valid_frac"] in agreeing


def tool_use(lacking, *, fallen=80, rows=100):
    """Return the first row of a finding and its signal, in a run that lacks the number of calls in some rows."""
    noise, judge = random.Random(1), DETECTORS["tool_use_collapse"]()  # noqa: S311 - synthetic telemetry
    for step in range(rows):
        calls = {"tools/calls": (2.0 if step < fallen else 0.1) + 0.05 * noise.gauss(0, 1)}
        signals = {"tools/valid_frac": 0.9 + 0.01 * noise.gauss(0, 1)} | ({} if step in lacking else calls)
        for finding in judge.update(Observation(step=step, signals=signals)):
            return step, finding.evidence["signal"]
    return None


def test_a_few_rows_without_its_first_signal_do_not_blind_a_detector_that_has_another_one():
    """The baseline of the first signal stays; where it came late, it replaces the other one after five rows."""
    assert tool_use([]) == tool_use([20]) == tool_use(range(20, 24)) == (81, "tools/calls")
    assert tool_use(range(60)) == tool_use(range(20, 60)) == (82, "tools/calls")  # by a shorter baseline


def test_a_flat_reward_is_a_plateau_and_a_rising_one_is_not():
    """After a hundred rows without a rise it is reported as information; a slow rise is not."""
    for slope in (0.0, 0.002):
        noise, judge, reported = random.Random(2), DETECTORS["plateau"](), []  # noqa: S311 - synthetic telemetry
        for step in range(160):
            reward = 0.3 + slope * step + 0.01 * noise.gauss(0, 1)
            reported.append(
                [str(f.severity) for f in judge.update(Observation(step=step, signals={"reward/mean": reward}))]
            )
        assert not any(reported[:99])
        assert (reported[-1] == ["info"]) is (slope == 0.0)


@pytest.mark.parametrize("side", ["correct", "wrong"])
def test_silent_groups_say_whether_all_is_right_or_wrong(side):
    """All correct and all incorrect both leave nothing to learn, and need opposite remedies."""
    judge, last = DETECTORS["silent_groups"](), ()
    for step in range(60):
        share = 1.0 if step >= 40 else 0.2 + 0.01 * (step % 2)
        other = "wrong" if side == "correct" else "correct"
        signals = {"reward/zero_std_frac": share, f"reward/all_{side}_frac": share, f"reward/all_{other}_frac": 0.0}
        last = judge.update(Observation(step=step, signals=signals))
    assert last[0].evidence[{"correct": "all_right", "wrong": "all_wrong"}[side]] == 1.0


@pytest.mark.parametrize(("after", "kind"), [(1.4, "reward_hacking"), (0.2, "reward_fall")])
def test_a_loss_of_accuracy_is_hacking_where_the_reward_holds(after, kind):
    """The share of correct responses falls to 0 while the reward doubles, or falls as well."""
    noise, judge, reported = random.Random(3), DETECTORS["accuracy_loss"](), []  # noqa: S311 - synthetic telemetry
    for step in range(60):
        levels = (0.5, 0.7) if step < 40 else (0.0, after)
        signals = {"reward/correct_frac": levels[0] + 0.02 * noise.random(), "reward/mean": levels[1]}
        reported += [found.kind for found in judge.update(Observation(step=step, signals=signals))]
    assert set(reported) == {kind}


def test_further_passes_over_silent_responses_are_one_row():
    """Four passes over one rollout hold the same reward and length; another rollout has another length."""
    for lengths, expected in (([120.0] * 4, set()), ([120.0, 121.0, 118.0, 119.0], {"warning", "critical"})):
        judge, reported = DETECTORS["sudden_silence"](), set()
        for step in range(44):
            silent = step >= 40
            length = lengths[step - 40] if silent else 120.0
            signals = {"reward/zero_std_frac": 1.0 if silent else 0.1, "reward/mean": 0.5, "length/mean": length}
            reported |= {str(f.severity) for f in judge.update(Observation(step=step, signals=signals))}
        assert reported == expected


def test_small_batches_that_are_often_silent_are_not_reported():
    """With one group a step every second row is silent by chance."""
    judge = DETECTORS["sudden_silence"]()
    rows = [float(step % 2) for step in range(40)] + [1.0] * 20
    assert not any(
        judge.update(Observation(step=step, signals={"reward/zero_std_frac": share})) for step, share in enumerate(rows)
    )


def test_entropy_that_only_other_prompts_explain_is_no_departure():
    """Entropy and length leap on harder prompts while the same contexts show nothing: the paired channel overrules."""
    for paired in (True, False):
        noise, judge, reported = random.Random(4), DETECTORS["joint_departure"](), []  # noqa: S311 - synthetic telemetry
        for step in range(60):
            harder = step >= 40
            signals = {"entropy/mean": 0.6 if harder else 0.3, "length/mean": 200.0 if harder else 100.0}
            signals = {name: value * (1 + 0.02 * noise.gauss(0, 1)) for name, value in signals.items()}
            if paired:
                signals["entropy/paired_delta"] = 0.001 * noise.gauss(0, 1)
            reported += judge.update(Observation(step=step, signals=signals))
        assert bool(reported) is not paired


def test_a_frozen_policy_is_a_page():
    """Entropy below 0.001 nat is a warning, and after three rows critical."""
    judge, reported = DETECTORS["entropy_collapse"](), []
    for step, entropy in enumerate([0.5] * 10 + [1e-6] * 4):
        reported += [
            (f.step, str(f.severity)) for f in judge.update(Observation(step=step, signals={"entropy/mean": entropy}))
        ]
    assert reported == [(10, "warning"), (11, "warning"), (12, "critical"), (13, "critical")]


def test_an_entropy_rounded_to_zero_has_a_bounded_strength():
    """Below 0.001 nat counts as that: from 0.03 nat to 0 the ratio is 30, and from 0.015 there was nothing to lose."""
    for level, statistics in ((0.03, {30.0}), (0.015, set())):
        judge, reported = DETECTORS["entropy_collapse"](), []
        for step, entropy in enumerate([level] * 10 + [0.0] * 4):
            reported += judge.update(Observation(step=step, signals={"entropy/mean": entropy}))
        assert {round(finding.evidence["statistic"], 9) for finding in reported} == statistics


def test_an_absurd_loss_is_a_page():
    """A loss of a thousand is a warning, and a loss of a million is critical."""
    for loss, severity in ((1e3, "warning"), (1e6, "critical")):
        judge, reported = DETECTORS["loss_explosion"](), []
        for step, value in enumerate([0.1] * 10 + [loss]):
            reported += judge.update(Observation(step=step, signals={"loss/policy": value}))
        assert [str(finding.severity) for finding in reported] == [severity]


def test_a_clip_share_that_rises_with_the_learning_rate_is_meant():
    """In a warm-up of the learning rate the clip share may grow fivefold without a finding."""
    for climbs in (True, False):
        judge, reported = DETECTORS["clip_surge"](), []
        for step in range(60):
            rate = 1e-6 * (1 + step) if climbs else 1e-6
            signals = {"ratio/clip_frac": 0.001 if step < 40 else 0.02, "lr": rate}
            reported += judge.update(Observation(step=step, signals=signals))
        assert bool(reported) is not climbs


def test_the_paired_channel_overrules_a_rise_that_other_contexts_explain():
    """Entropy and −likelihood rise by 0.3 nat on new prompts while the same contexts show nothing: information only."""
    noise = random.Random(1)  # noqa: S311 - synthetic telemetry
    reported = set()
    judge = DETECTORS["likelihood_drift"]()
    for step in range(120):
        entropy = 0.4 + max(0, step - 60) * 0.005 + 0.005 * noise.gauss(0, 1)
        signals = {
            "entropy/mean": entropy,
            "likelihood/correct": -entropy,
            "entropy/paired_delta": 0.0005 * noise.gauss(0, 1),
        }
        found = judge.update(Observation(step=step, signals=signals))
        reported |= {(finding.kind, str(finding.severity)) for finding in found}
    assert reported == {("difficulty_shift", "info")}


DRIFT_RULES = [
    ("likelihood_drift", {"info": "W D > 0.8 max(0.108, ", "warning": "W D > max(0.108, "}),
    ("paired_drift", {"info": " and W S R > 0.4, ", "warning": " and W S R > 0.72, "}),
]


@pytest.mark.parametrize(("name", "rules"), DRIFT_RULES)
def test_a_drift_states_the_rule_of_its_threshold_and_the_rise_of_each_signal(name, rules):
    """Information has a lower bound than a warning; −likelihood rises twice as fast as entropy."""
    judge, found = DETECTORS[name](), {}
    for step in range(50):
        drift = 0.01 * max(0, step - 20)
        signals = (
            {"entropy/mean": 0.4 + drift, "likelihood/correct": -0.4 - 2 * drift}
            if name == "likelihood_drift"
            else {"entropy/paired_delta": 0.001 * (-1) ** step + (0.004 if step >= 20 else 0.0)}
        )
        for finding in judge.update(Observation(step=step, signals=signals)):
            found.setdefault(str(finding.severity), finding)
    assert found.keys() == rules.keys()
    for severity, rule in rules.items():
        assert rule in found[severity].evidence["arithmetic"]
    if name == "likelihood_drift":
        entropy, likelihood = found["info"].summary.split(", and ")
        assert entropy == "Entropy has risen by 0.035 nat per token since step 20"
        assert likelihood == "negative log-likelihood by 0.070 since step 20."


@pytest.mark.parametrize(("left", "dies"), [(0.6, False), (0.15, True)], ids=["three fifths", "a seventh"])
def test_a_small_batch_that_shows_half_has_not_lost_half(left, dies):
    """Thirty-two responses a row, and entropy rises: a policy that keeps 60 % of its reward is never called dead."""
    for seed in range(20):
        draw, judge, reported = random.Random(seed), DETECTORS["run_collapsed"](), []  # noqa: S311 - synthetic telemetry
        for step in range(120):
            dips = 80 <= step < 95
            success = 0.7 * (left if dips else 1.0)
            reward = sum(draw.random() < success for _ in range(32)) / 32
            signals = {"reward/mean": reward, "entropy/mean": 0.5 if dips else 0.3}
            reported += judge.update(Observation(step=step, signals=signals))
        assert bool(reported) is dies


def test_entropy_that_flickers_at_the_floor_is_one_collapse():
    """A row or two above the bound, as noise around zero has it, does not end a collapse or a page; three rows do."""
    for back, ends in ((2, False), (3, True)):
        judge, held = DETECTORS["entropy_collapse"](), []
        for step, entropy in enumerate([0.5] * 10 + [1e-6] * 4 + [0.06] * back + [1e-6]):
            reported = judge.update(Observation(step=step, signals={"entropy/mean": entropy}))
            held.append([str(finding.severity) for finding in reported])
        assert held[13] == ["critical"]
        assert (held[-1] == ["critical"]) is not ends


def test_a_reward_that_fell_before_the_drift_asks_more_of_a_page():
    """Without pairs, a drift after a fall of the reward may be harder questions: the same surge pages only without."""
    paged = []
    for falls in (False, True):
        noise, judge, reported = random.Random(3), SpiralWithDrifts(), []  # noqa: S311 - synthetic telemetry
        for step in range(120):
            drift = 0.003 * min(max(0, step - 50), 40)
            signals = {
                "reward/mean": (0.3 if falls and step >= 52 else 0.5) + 0.01 * noise.gauss(0, 1),
                "entropy/mean": 0.4 + drift + 0.004 * noise.gauss(0, 1),
                "likelihood/correct": -0.4 - drift + 0.004 * noise.gauss(0, 1),
                "grad/norm": (1.4 if step >= 95 else 1.0) * (1.0 + 0.1 * noise.gauss(0, 1)),
            }
            reported += [f.evidence["threshold"] for f in judge.update(Observation(step=step, signals=signals))]
        paged.append((reported, {round(t, 2) for t in reported}))
    assert paged[0][1] == {1.4}
    assert paged[1][1] <= {2.24}
    assert len(paged[1][0]) < len(paged[0][0])


@pytest.mark.parametrize(("rows", "pages"), [(3, False), (10, True)], ids=["a surge begins", "a surge is clear"])
def test_a_small_drift_that_leaps_waits_for_a_surge_as_clear_as_the_leap(rows, pages):
    """An exploration leaps before it saturates: how far entropy leaps is no second witness, the updates are."""
    for seed in range(8):
        noise, judge, reported = random.Random(seed), SpiralWithDrifts(), []  # noqa: S311 - synthetic telemetry
        for step in range(88 + rows):
            change = 0.0008 * noise.gauss(0, 1) + (0.0006 if step >= 50 else 0.0) + (0.002 if step >= 82 else 0.0)
            quiet = math.exp((0.25, -0.25, 0.12, -0.12)[step % 4])
            signals = {"entropy/paired_delta": change, "grad/norm": 2.0 if step >= 88 else quiet}
            reported += judge.update(Observation(step=step, signals=signals))
        assert bool(reported) is pages


def feed(detector, rows):
    """Return the findings of each row."""
    return [detector.update(Observation(step=step, signals=row)) for step, row in enumerate(rows)]


def rewarded(rewards, correct):
    """Return the signals of rows with these rewards and shares of correct responses."""
    return [{"reward/mean": r, "reward/correct_frac": c} for r, c in zip(rewards, correct, strict=True)]


SHARES = [0.2, 0.3, 0.25, 0.35, 0.3] * 4 + [0.2, 0.3, 0.25, 0.35]
DETACHED = [0.1 + share + 0.05 * max(0, row - 20) for row, share in enumerate(SHARES)]
BRIEF = [{"reward/mean": 0.5, "length/mean": 200.0 + row % 3, "tools/calls": 1.5} for row in range(60)]


@pytest.mark.parametrize(
    ("name", "rows", "text"),
    [
        (
            "reward_leap",
            [{"reward/mean": reward} for reward in [0.3, 0.4] * 8 + [2.4, 2.6, 0.35]],
            "was at most 0.4 and leapt to 2.6 at step 17, and is now 0.35:",
        ),
        (
            "reward_loss",
            [{"reward/mean": reward} for reward in [0.9, 0.8, 1.0] * 5 + [0.4] * 5 + [0.95]],
            "from 0.9 to 0.4 since step 18, a level that it has hardly ever had; it is now 0.95.",
        ),
        (
            "accuracy_loss",
            rewarded([0.7] * 46, [0.5, 0.6, 0.4, 0.5] * 10 + [0.0] * 5 + [0.6]),
            "from 0.5 to 0 since step 42, and the reward held; the share is now 0.6.",
        ),
        (
            "reward_hacking",
            [*BRIEF, *[{"reward/mean": 0.5, "length/mean": 20.0, "tools/calls": 0.1}] * 35],
            "while length/mean 201 to 20, tools/calls 1.5 to 0.1:",
        ),
        (
            "reward_detachment",
            rewarded([*DETACHED, 0.0], [*SHARES, 0.3]),
            "From step 21 on the reward was too high: it is now 0, and 0.4 is usual for 30% of",
        ),
    ],
)
def test_the_text_of_a_held_finding_says_what_was_found_and_what_is_now(name, rows, text):
    """The values are back, or their window has moved on, and neither stands in the place of the values found."""
    (finding,) = feed(DETECTORS[name](), rows)[-1]
    assert text in finding.summary


def test_an_onset_is_known_as_long_as_the_finding_holds():
    """A reward far below what correct responses explain empties the sum, and the finding is held for three rows."""
    found = feed(DETECTORS["reward_detachment"](), rewarded([*DETACHED, 0.0, 0.0], [*SHARES, 0.3, 0.25]))
    assert [each[0].evidence["onset"] for each in found[23:]] == [[21, 23]] * 3


def test_a_sudden_collapse_names_a_reward_that_is_low():
    """The fast form opens after two low rewards, when the median of five is still high."""
    well = {"reward/mean": 0.6, "entropy/mean": 0.3, "length/mean": 200.0}
    dead = {"reward/mean": 0.02, "entropy/mean": 1.2, "length/mean": 700.0}
    rows = [{name: value * (1.0 + 0.01 * (row % 3)) for name, value in well.items()} for row in range(30)]
    found = [findings for findings in feed(DETECTORS["run_collapsed"](), [*rows, *[dead] * 3]) if findings]
    assert [each[0].summary.split(",")[0] for each in found] == ["The reward fell from 0.606 at step 5 to 0.02"] * 2
