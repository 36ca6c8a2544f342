"""Every signal against a reference of plain loops over tokens, and shards against the whole."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.trainer_hooks.signals.made_up import arrays, close
from trainer_hooks import Rollouts
from trainer_hooks.signals import NAMES, summarise
from trainer_hooks.signals.families import familiarity
from trainer_hooks.wire import Record, merge


def correlation(one, other):
    """Return the correlation of the finite pairs of a group, or None where one of the two does not vary."""
    known = np.isfinite(one) & np.isfinite(other)
    one, other = one[known], other[known]
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return float(np.corrcoef(one, other)[0, 1])


@np.errstate(all="ignore")
def by_loops(a: dict) -> dict[str, float]:
    """Return every signal, one token at a time; lists that end up empty give no signal."""
    responses, width = a["mask"].shape
    rewarded = [i for i in range(responses) if math.isfinite(a["rewards"][i])]
    correct = [math.isfinite(reward) and reward > 0 for reward in a["rewards"]]
    incorrect = [math.isfinite(reward) and reward <= 0 for reward in a["rewards"]]
    words = {i: [k for k in range(width) if a["mask"][i, k]] for i in range(responses)}
    action = {
        i: {k: sum(1 for j in range(k + 1) if a["mask"][i, j] and (j == 0 or not a["mask"][i, j - 1])) - 1 for k in ks}
        for i, ks in words.items()
    }
    tokens = [(i, k) for i, ks in words.items() for k in ks]
    right, wrong = [t for t in tokens if correct[t[0]]], [t for t in tokens if incorrect[t[0]]]
    lp, old, ent = a["logprobs"], a["old_logprobs"], a["entropies"]
    delta = {t: lp[t] - old[t] for t in tokens}
    ratio = {t: math.exp(d) if math.isfinite(d) else d for t, d in delta.items()}
    groups = {g: [i for i in range(responses) if a["group_ids"][i] == g] for g in set(a["group_ids"].tolist())}
    mixed = [m for m in groups.values() if any(correct[i] for i in m) and any(incorrect[i] for i in m)]
    several = [known for m in groups.values() if len(known := [i for i in m if i in rewarded]) > 1]
    dead = [m for m in several if len({a["rewards"][i] for i in m}) == 1]
    finite_ratio = [t for t in tokens if math.isfinite(delta[t])]
    weighed = [t for t in finite_ratio if math.isfinite(a["advantages"][t[0]])]
    kept = [t for t in weighed if a["advantages"][t[0]] >= 0]
    kept_actions = {(i, action[i][k]) for i, k in kept}
    ends = {
        "low": [t for t in weighed if ratio[t] < 0.8 and a["advantages"][t[0]] < 0],
        "high": [t for t in weighed if ratio[t] > 1.28 and a["advantages"][t[0]] > 0],
    }
    grams = {
        i: [
            tuple(a["token_ids"][i, ks[j : j + 4]].tolist())
            for j in range(len(ks) - 3)
            if action[i][ks[j]] == action[i][ks[j + 3]] == action[i][ks[j + 1]] == action[i][ks[j + 2]]
        ]
        for i, ks in words.items()
    }
    gaps = {i: [k for k in range(min(ks, default=0), max(ks, default=0)) if k not in ks] for i, ks in words.items()}
    answers = {
        i: {a["token_ids"][i, k] for k in range(width) if a["answer_mask"][i, k]} - set(a["control_ids"])
        for i in range(responses)
    }
    first_known = {(a["group_ids"][i], a["first_feedback"][i]) for i in range(responses) if correct[i]}
    wrong_in_mixed = [i for m in mixed for i in m if incorrect[i]]
    lists = {
        "reward/mean": list(a["rewards"]),
        "reward/correct_frac": [correct[i] for i in rewarded],
        "reward/neutral_frac": [a["rewards"][i] == 0 for i in rewarded],
        "reward/negative_frac": [a["rewards"][i] < 0 for i in rewarded],
        "reward/zero_std_frac": [m in dead for m in several],
        "reward/all_correct_frac": [m in dead and correct[m[0]] for m in several],
        "reward/all_wrong_frac": [m in dead and not correct[m[0]] for m in several],
        "advantage/mean_abs": [abs(x) for x in a["advantages"]],
        "advantage/reward_corr": [
            corr
            for m in groups.values()
            if len(m) > 1 and (corr := correlation(a["advantages"][m], a["rewards"][m])) is not None
        ],
        "likelihood/correct": [lp[t] for t in right],
        "likelihood/incorrect": [lp[t] for t in wrong],
        "likelihood/correct_seq": [sum(lp[i, k] for k in ks) for i, ks in words.items() if correct[i] and ks],
        "entropy/mean": [ent[t] for t in tokens],
        "displacement/self" if a["trained"] else "displacement/cross": [delta[t] for t in right],
        "displacement/fell_frac": [
            change < 0
            for m in mixed
            if math.isfinite(change := sum(delta[i, k] for i in m if correct[i] for k in words[i]))
        ],
        "lld/penalty_tokens_frac": [delta[t] < 0 for t in kept],
        "lld/gated_responses_frac": [
            sum(delta[t] for t in kept if t[0] == i) < 0 for i in sorted({t[0] for t in kept})
        ],
        "lld/gated_actions_frac": [
            sum(delta[t] for t in kept if (t[0], action[t[0]][t[1]]) == name) < 0 for name in sorted(kept_actions)
        ],
        "ratio/clip_frac": [t in ends["low"] + ends["high"] for t in weighed],
        "ratio/clip_low_frac": [t in ends["low"] for t in weighed],
        "ratio/clip_high_frac": [t in ends["high"] for t in weighed],
        "kl/old": [ratio[t] - 1 - delta[t] for t in tokens],
        "kl/ref": [math.exp(d) - 1 - d for t in tokens if math.isfinite(d := a["ref_logprobs"][t] - lp[t])],
        "mismatch/logprob_abs": [abs(old[t] - a["sampler_logprobs"][t]) for t in tokens],
        "mismatch/kl": [math.exp(d) - 1 - d for t in tokens if math.isfinite(d := old[t] - a["sampler_logprobs"][t])],
        "length/mean": [len(ks) for ks in words.values() if ks],
        "length/truncated_frac": list(a["truncated"]),
        "tools/calls": list(a["tool_calls"]),
        "tools/none_frac": [calls == 0 for calls in a["tool_calls"]],
        "tools/malformed_frac": list(a["tool_calls_valid"] < a["tool_calls"]),
        "tools/valid_frac": [
            j < valid for calls, valid in zip(a["tool_calls"], a["tool_calls_valid"], strict=True) for j in range(calls)
        ],
        "tools/empty_frac": [
            j < empty
            for valid, empty in zip(a["tool_calls_valid"], a["tool_calls_empty"], strict=True)
            for j in range(valid)
        ],
        "tools/unbroken_frac": [not gaps[i] for i, ks in words.items() if ks and a["tool_calls_valid"][i] > 0],
        "tools/grounded_frac": [
            bool(answers[i]) and answers[i] <= {a["token_ids"][i, k] for k in gaps[i]} - set(a["control_ids"])
            for i in range(responses)
        ],
        "text/repetition": [1 - len(set(g)) / len(g) for g in grams.values() if g],
        "text/looping_frac": [2 * len(set(g)) < len(g) for g in grams.values() if g],
        "text/distinct": [len({a["token_ids"][i, k] for k in ks}) / len(ks) for i, ks in words.items() if ks],
        "control/prob": [math.exp(lp[t]) for t in tokens if a["token_ids"][t] == 1 and math.isfinite(lp[t])],
        "control/share": [a["token_ids"][t] == 1 for t in tokens],
        "similarity/first_action_shared": [
            a["first_feedback"][i] >= 0 and (a["group_ids"][i], a["first_feedback"][i]) in first_known
            for i in wrong_in_mixed
        ],
    }
    for index in range(8):
        lists[f"likelihood/action{index}"] = [lp[i, k] for i, k in right if action[i][k] == index]
        lists[f"entropy/action{index}"] = [ent[i, k] for i, k in tokens if action[i][k] == index]
    finite = {name: [float(x) for x in values if math.isfinite(x)] for name, values in lists.items()}
    signals = {name: sum(values) / len(values) for name, values in finite.items() if values}
    deltas = [delta[t] for t in finite_ratio]
    weights = [math.exp(d) for d in deltas]
    means = [sum(lp[i, k] for k in ks) / len(ks) for i, ks in words.items() if ks]
    given = [a["logprobs"], old, a["sampler_logprobs"], a["ref_logprobs"], ent]
    bad = sum(not math.isfinite(array[t]) for array in given for t in tokens)
    bad += sum(not math.isfinite(array[i]) for array in (a["rewards"], a["advantages"]) for i in range(responses))
    signals["finite/bad_values"] = float(bad)
    if rewarded:
        signals["reward/std"] = float(np.std(a["rewards"][rewarded]))
    if deltas:
        signals["ratio/max"] = math.exp(max(deltas))
        signals["ratio/log_var"] = float(np.var(deltas))
        signals["ratio/ess_frac"] = sum(weights) ** 2 / (len(weights) * sum(w * w for w in weights))
    quantiles = {
        "likelihood/p05": (means, 0.05),
        "entropy/p95": ([ent[t] for t in tokens], 0.95),
        "length/p95": ([len(ks) for ks in words.values() if ks], 0.95),
        "ratio/p999": (list(ratio.values()), 0.999),
    }
    for name, (values, quantile) in quantiles.items():
        known = [x for x in values if math.isfinite(x)]
        if known:
            signals[name] = float(np.quantile(known, quantile, method="inverted_cdf"))
    return signals


def compute_signals(a: dict) -> dict[str, float]:
    """Return the signals as the collector would show them."""
    return merge([Record(step=1, summaries=summarise(Rollouts(**a)))])


steps = st.builds(arrays, st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 24), bad=st.booleans())


@settings(max_examples=150, deadline=None)
@given(steps)
def test_signals_equal_plain_loops(a):
    """The vectorised signals equal the definitions, computed token by token."""
    found, expected = compute_signals(a), by_loops(a)
    assert set(found) == set(expected)
    wrong = {name: (found[name], expected[name]) for name in found if not close(name, found[name], expected[name])}
    assert not wrong


@settings(max_examples=100, deadline=None)
@given(steps, st.data())
def test_shards_merge_to_the_whole(a, data):
    """Ranks with whole groups, merged, have the signals of one rank with all groups."""
    edges = [i for i in range(1, len(a["rewards"])) if a["group_ids"][i] != a["group_ids"][i - 1]]
    cut = data.draw(st.sampled_from([0, *edges]))
    if cut == 0 or not a["mask"][:cut].any() or not a["mask"][cut:].any():
        return
    parts = [
        {name: value[part] if isinstance(value, np.ndarray) else value for name, value in a.items()}
        for part in (slice(0, cut), slice(cut, None))
    ]
    merged = merge([Record(step=1, summaries=summarise(Rollouts(**part))) for part in parts])
    whole = compute_signals(a)
    assert set(merged) == set(whole)
    assert merged == {name: pytest.approx(value, rel=1e-9, abs=1e-9) for name, value in whole.items()}


def test_rewards_that_are_large_and_alike_have_a_correlation():
    """They differ by two per cent, which is no rounding."""
    better = np.array([True, False, True, False])
    a = arrays(3, 4, 8, bad=False) | {"group_ids": np.zeros(4, int)}
    a |= {"rewards": np.where(better, 10.2, 10.0), "advantages": np.where(better, 1.0, -1.0)}
    assert compute_signals(a)["advantage/reward_corr"] == pytest.approx(1.0)


def test_a_response_without_action_tokens_leaves_the_correlation_of_its_group():
    """It has no mean of its tokens' advantages, and the others of the group have."""
    better = np.array([True, False, True, False])
    a = {"logprobs": np.full((4, 8), -1.0), "group_ids": np.zeros(4, int), "rewards": np.where(better, 1.0, 0.0)}
    a |= {"mask": np.repeat([[True], [True], [True], [False]], 8, axis=1)}
    a |= {"advantages": np.repeat(np.where(better, 1.0, -1.0)[:, None], 8, axis=1)}
    assert compute_signals(a)["advantage/reward_corr"] == pytest.approx(1.0)


def test_every_signal_can_be_computed():
    """With all arguments every name of a single step appears, except the other kind of displacement."""
    a = arrays(3, 60, 40, bad=False) | {"trained": False}
    names = set(NAMES) - set(familiarity.NAMES)  # these need several steps
    assert names - set(compute_signals(a)) == {"displacement/self"}
    assert names - set(compute_signals(a | {"trained": True})) == {"displacement/cross"}
