"""The names that trainers give to signals: TRL, verl, Search-R1, OpenRLHF, SkyRL, slime, prime-rl, NeMo-RL, loops.

Keys are compared without case, without a leading section such as ``train/``, and with all separators treated alike,
because CSV exports write ``actor_entropy`` for the trainer's ``actor/entropy``. This module handles names only, no
files.
"""

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from monitor_server.detection.registry import DETECTORS

__all__ = [
    "CALLS",
    "FALLBACK",
    "PLACES",
    "SHARES",
    "SIGNALS",
    "STEP_KEYS",
    "all_numbers",
    "find_signal_keys",
    "is_known",
    "number",
    "other_step_keys",
    "outer_keys",
    "read_row",
    "read_signals",
    "signal_of",
    "step_keys",
    "ungrouped",
]

# The count of the calls of log() by W&B and Trackio, which is the step of a run that logs none of its own.
CALLS = "_step"
STEP_KEYS = ("step", "global_step", "training_global_step", "trainer_global_step", "train_step", CALLS)

# What loops call a step if they log none of the names above. "steps" is not among them: in logs of agents it is the
# length of an episode.
OTHER_STEP_KEYS = ("iteration", "iter", "global_steps")
# What loops count around a step that begins again with each of these.
OUTER_KEYS = ("epoch", *OTHER_STEP_KEYS)

# Canonical name → keys, the most trusted first: the raw reward before one with a subtracted KL penalty.
_KEYS: dict[str, tuple[str, ...]] = {
    "reward/mean": (
        "reward", "critic_score_mean", "reward_mean", "mean_reward", "rollout_reward_mean", "rollout_raw_reward",
        "reward_avg_raw_reward", "rewards_mean", "critic_rewards_mean", "avg_reward", "average_reward", "reward_avg",
        "objective_scores", "objective_rlhf_reward", "rollout_ep_rew_mean", "ep_rew_mean", "episode_reward_mean",
        "reward_score_mean", "batch_reward", "total_reward", "avg_total_reward",
        "env_all_reward_total", "ppo_mean_scores", "env_reward_mean",
    ),
    "reward/std": (
        "reward_std", "rollout_reward_std", "std_reward", "group_reward_std", "ppo_std_scores", "env_reward_std",
    ),
    "reward/zero_std_frac": ("frac_reward_zero_std", "zero_std_frac", "advantage_zero_rate", "frac_zero_std"),
    "entropy/mean": (
        "entropy", "actor_entropy", "actor_entropy_loss", "policy_entropy", "policy_policy_entropy", "entropy_mean",
        "entropy_loss", "entropy_all_mean", "policy_entropy_avg", "mean_entropy", "optim_entropy",
        "ppo_policy_entropy",
    ),
    "grad/norm": (
        "grad_norm", "actor_grad_norm", "policy_grad_norm", "policy_raw_grad_norm", "optim_grad_norm",
        "actor_train_grad_norm", "gradient_norm", "total_grad_norm",
    ),
    "ratio/clip_frac": (
        "clip_ratio_region_mean", "clip_ratio", "actor_pg_clipfrac", "actor_clipfrac", "pg_clipfrac", "ppo_clip_ratio",
        "policy_loss_metrics_clip_ratio", "policy_ppo_clip_ratio", "policy_clipfrac_avg", "clip_fraction", "clip_frac",
        "clipfrac", "is_masked_mean", "ppo_policy_clipfrac",
    ),
    "ratio/clip_low_frac": ("clip_ratio_low_mean", "is_masked_low_mean"),
    "ratio/clip_high_frac": ("clip_ratio_high_mean", "is_masked_high_mean"),
    "kl/old": ("actor_ppo_kl", "ppo_kl", "approx_kl", "policy_approxkl_avg", "approxkl", "ppo_policy_approxkl"),
    "kl/ref": (
        "kl", "actor_kl_loss", "actor_reward_kl_penalty", "kl_loss", "kl_div", "kl_divergence", "mean_kl", "kl_mean",
        "policy_policy_kl", "loss_avg_kl", "critic_kl", "kl_term", "kl_ref", "ref_kl",
    ),
    "mismatch/ratio": (
        "sampling_importance_sampling_ratio_mean", "rollout_corr_rollout_is_mean", "train_tis",
    ),
    "mismatch/logprob_abs": (
        "sampling_sampling_logp_difference_mean", "policy_rollout_train_logprobs_abs_diff_mean",
        "train_rollout_logprob_abs_diff", "rollout_corr_log_ppl_abs_diff",
    ),
    "mismatch/kl": (
        "vllm_kl", "mismatch_kl_all_mean", "mismatch_kl", "optim_kl_sample_train_v1", "generation_kl_error",
        "gen_kl_error", "rollout_corr_k3_kl", "rollout_corr_kl", "mis_k3_kl", "mis_kl",
    ),
    "length/mean": (
        "completions_mean_length", "completion_length", "response_length_mean", "rollout_response_length_mean",
        "rollout_response_lengths",
        "generate_avg_num_tokens", "rollout_response_len_mean", "num_output_tokens_mean", "mean_length", "length_mean",
        "response_length", "completion_len", "avg_length", "mean_completion_length", "mean_generation_length",
        "mean_gen_tokens_per_sample", "seq_length", "env_all_ac_tokens_per_turn", "tokens_responses_len_mean",
    ),
    "length/truncated_frac": (
        "completions_clipped_ratio", "response_length_clip_ratio", "rollout_truncated_rate", "rollout_truncated_ratio",
        "rollout_truncated",
        "is_truncated_mean", "truncation", "truncated", "truncated_frac", "truncation_rate", "length_cap_hit_rate",
    ),
    "tools/calls": (
        "tools_call_frequency", "tool_call_counts_mean", "env_number_of_actions_mean", "num_turns_mean",
    ),
    "tools/valid_frac": ("env_ratio_of_valid_action",),
    "loss/policy": (
        "policy_loss", "actor_pg_loss", "policy_policy_loss", "pg_loss", "loss", "loss_mean", "loss_policy_avg",
        "train_loss", "training_loss", "ppo_loss_policy",
    ),
    "loss/llds": ("llds_loss", "actor_llds_loss"),
    "lr": (
        "learning_rate", "actor_lr", "lr", "policy_lr", "policy_policy_lr", "optim_lr", "lr_pg_0", "ppo_learning_rate",
    ),
}  # fmt: skip

# Short names that a corpus's meta.json maps to the original keys; used if no key above was found.
FALLBACK = {
    "reward": "reward/mean",
    "reward_std": "reward/std",
    "frac_zero_std": "reward/zero_std_frac",
    "entropy": "entropy/mean",
    "grad_norm": "grad/norm",
    "clip": "ratio/clip_frac",
    "kl": "kl/ref",
    "length": "length/mean",
    "clipped_len_frac": "length/truncated_frac",
    "loss": "loss/policy",
    "lr": "lr",
    "tool_calls": "tools/calls",
}

# Keys that must have exactly this spelling. slime's is the distance to the reference model; forks of verl write the
# distance between sampler and trainer under "rollout_kl".
_AS_SPELLED = {"rollout/kl": ("kl/ref", len(_KEYS["kl/ref"]))}
# TRL's PPO, RLOO and online DPO sum these over the tokens of a response, whose number they may not log; the signals are
# for each token.
_OF_A_RESPONSE = frozenset({"objective_kl", "objective_entropy"})
# Without a reference model (`--kl-coef 0`), slime writes zeros under this key; then there was no measurement.
_ZERO_IS_NOTHING = frozenset({"rollout/kl"})

# At the end, transformers logs its run time and the mean loss of the run, which callbacks put at the last step.
_RUNTIMES = {"train_loss": "train_runtime", "train/train_loss": "train/train_runtime"}

_RANK = {key: (signal, rank) for signal, keys in _KEYS.items() for rank, key in enumerate(keys)}
# Our own recordings have canonical names, including names that no trainer logs; they take precedence.
SIGNALS = frozenset({*_KEYS, *(name for detector in DETECTORS.values() for name in detector.reads)})
SHARES = frozenset(name for name in SIGNALS if name.endswith("_frac"))
PLACES = {*STEP_KEYS, "attempt", "_timestamp", "_runtime"}
_SECTION = re.compile(r"^(train|training|trainer|metrics|story|global)[/.:](?=.)")


# A factor or the unit of the signal in brackets, as in "actor/lr(1e-4)", does not belong to the name. Anything else in
# brackets does: "reward (std)" is no mean, and "entropy (bits)" no entropy in nats.
_UNIT = re.compile(r"\(\s*(?:(?:[x×*]\s*)?[-+]?[\d.]+(?:e[-+]?\d+)?|tokens?|nats?)\s*\)")
# Other characters change the meaning of a name: "-loss", "Δkl", "clip_frac %".
_PLAIN = re.compile(r"[\[a-z0-9_][][a-z0-9\s_/.:|@-]*")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def _spellings(key: str) -> tuple[str, ...]:
    """Return a key without case and units and with one kind of separator; with its section, and without it."""
    lowered = _UNIT.sub("", key.strip().lower()).strip()
    if _PLAIN.fullmatch(lowered) is None:
        return ()
    return tuple(_SEPARATORS.sub("_", each).strip("_") for each in (lowered, _SECTION.sub("", lowered)))


@lru_cache(maxsize=4096)
def _find_signal(key: str) -> tuple[str, int] | None:
    if key in SIGNALS:
        return key, -1
    if key in _AS_SPELLED:
        return _AS_SPELLED[key]
    return next((_RANK[spelling] for spelling in _spellings(key) if spelling in _RANK), None)


@lru_cache(maxsize=256)
def step_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a row that may hold its step, the most trusted first.

    Keys that are spelled as in `STEP_KEYS` come alone; without one, other spellings count, such as ``Step`` in a table
    and ``train/global_step``. `CALLS` comes after them.
    """
    exact = tuple(key for key in STEP_KEYS if key in keys)
    if exact and exact != (CALLS,):
        return exact
    spelled = [(STEP_KEYS.index(name), key) for key in keys for name in _spellings(key) if name in STEP_KEYS]
    own = dict.fromkeys(key for _, key in sorted(spelled) if key != CALLS)
    return (*own, *exact)


@lru_cache(maxsize=256)
def other_step_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a row that may hold its step in a log without any of `step_keys`, the most trusted first."""
    return tuple(key for name in OTHER_STEP_KEYS for key in keys if name in _spellings(key))


@lru_cache(maxsize=256)
def outer_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys of a row that may count the loops in each of which the steps begin again, epochs first."""
    return tuple(key for name in OUTER_KEYS for key in keys if name in _spellings(key))


def signal_of(key: str) -> str | None:
    """Return the canonical signal of a trainer's key; None if there is none."""
    named = _find_signal(key)
    return None if named is None else named[0]


def is_known(key: str) -> bool:
    """Return whether a trainer's key belongs to a signal."""
    return _find_signal(key) is not None


def read_row(row: Mapping[str, object], fallback: Mapping[str, str] | None = None) -> dict[str, float]:
    """Return a logged row's numbers under canonical names.

    Args:
        row: The trainer's own keys and values; values other than numbers are skipped, NaN and infinity are kept.
        fallback: Short names to the row's keys, as in a corpus's ``signals``, for signals that are not recognised.
    """
    return read_signals(row, find_signal_keys(row), fallback)


def find_signal_keys(keys: Iterable[str]) -> list[tuple[str, str, int]]:
    """Return the keys of a row that belong to a signal, each with the signal and its rank among the signal's keys."""
    return [(key, *named) for key in keys if (named := _find_signal(key)) is not None]


def read_signals(
    row: Mapping[str, object],
    keys: Iterable[tuple[str, str, int]],
    fallback: Mapping[str, str] | None = None,
    signs: dict[str, float] | None = None,
) -> dict[str, float]:
    """Return the signals of a row from its `find_signal_keys`, which are the same in most rows of a run.

    Args:
        row: The trainer's own keys and values.
        keys: Its `find_signal_keys`.
        fallback: As in `read_row`.
        signs: The sign with which each term of a loss is the entropy, so far; new terms are added. The first number of
            a run decides: an entropy of continuous actions may cross zero later. Without it each row decides.
    """
    found: dict[str, float] = {}
    ranks: dict[str, int] = {}
    for key, signal, rank in keys:
        if (signal in ranks and rank >= ranks[signal]) or (key in _RUNTIMES and _has_number(row, _RUNTIMES[key])):
            continue
        parsed = number(row[key])
        if parsed and signal == "entropy/mean" and "loss" in key and not math.isnan(parsed):
            # Stable-Baselines3 logs the term of the loss; verl and OpenRLHF log the entropy itself.
            own = -1.0 if parsed < 0.0 else 1.0
            parsed *= own if signs is None else signs.setdefault(key, own)
        if parsed is not None and (parsed != 0.0 or key not in _ZERO_IS_NOTHING):
            ranks[signal], found[signal] = rank, parsed
    for short, key in (fallback or {}).items():
        name, parsed = FALLBACK.get(short), number(row.get(key))
        if name is not None and parsed is not None and _may_be_signal(key):
            found.setdefault(name, parsed)
    return found


def _may_be_signal(key: str) -> bool:
    """Return whether a key without a known signal may have one that a corpus names."""
    return _find_signal(key) is None and _OF_A_RESPONSE.isdisjoint(_spellings(key))


def _has_number(row: Mapping[str, object], key: str) -> bool:
    """Return whether a row has a finite number; exports write null or NaN where nothing was logged."""
    found = number(row.get(key))
    return found is not None and math.isfinite(found)


def all_numbers(
    row: Mapping[str, object], fallback: Mapping[str, str] | None = None, signs: dict[str, float] | None = None
) -> dict[str, float]:
    """Return a logged row's signals, as `read_signals` does, and its other numbers under the trainer's own keys."""
    own = {key: number(value) for key, value in row.items() if _find_signal(key) is None and key not in PLACES}
    return {key: value for key, value in own.items() if value is not None} | read_signals(
        row, find_signal_keys(row), fallback, signs
    )


def number(value: object) -> float | None:
    """Return a number, or the number in a text (including "NaN" and "Infinity"); None for anything else.

    An integer beyond the largest float is infinite.
    """
    if type(value) is float:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return -math.inf if isinstance(value, int) and value < 0 else math.inf


def ungrouped(text: str) -> str | None:
    """Return a number without the commas between its thousands; None if its commas are others.

    >>> ungrouped("1,234.5"), ungrouped("0,5")
    ('1234.5', None)
    """
    if "," not in text:
        return text
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else None
