"""Steps made up by a seed, and when two signals of a step are the same."""

import math

import numpy as np

# A histogram's quantile is exact to a bin: nats of likelihood and entropy, and logarithms of ratio and length.
BIN = {"likelihood/p05": 16 / 1024, "entropy/p95": 12.8 / 1024, "ratio/p999": 16 / 1024, "length/p95": 0.01}


def arrays(seed: int, responses: int, width: int, *, bad: bool) -> dict:
    """Make up a step with every optional array, groups of two or three, and rubbish outside the mask."""
    rng = np.random.default_rng(seed)
    shape = (responses, width)
    mask = rng.random(shape) < rng.choice([0.3, 0.8])
    mask[0, 0] = True
    logprobs = -rng.exponential(1.0, shape)
    token_arrays = {
        "logprobs": logprobs,
        "old_logprobs": np.minimum(logprobs + rng.normal(0, 0.3, shape), -1e-6),
        "sampler_logprobs": np.minimum(logprobs + rng.normal(0, 0.1, shape), -1e-6),
        "ref_logprobs": np.minimum(logprobs + rng.normal(0, 0.5, shape), -1e-6),
        "entropies": rng.exponential(1.0, shape),
    }
    for array in token_arrays.values():
        array[~mask] = rng.choice([np.nan, np.inf, 7.0, 0.0])
        if bad:
            array[rng.random(shape) < 0.1] = rng.choice([np.nan, -np.inf])
    rewards, advantages = rng.integers(-1, 2, responses).astype(float), rng.choice([-1.0, 0.0, 1.0], responses)
    if bad:
        for array in (rewards, advantages):
            array[rng.random(responses) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
    calls = rng.integers(0, 3, responses)
    valid = np.minimum(calls, rng.integers(0, 3, responses))
    return token_arrays | {
        "mask": mask,
        "rewards": rewards,
        "advantages": advantages,
        "group_ids": np.sort(rng.integers(0, max(1, responses // 2), responses)),
        "token_ids": rng.integers(0, 3, shape),
        "answer_mask": mask & (rng.random(shape) < rng.choice([0.05, 0.5])),
        "tool_calls": calls,
        "tool_calls_valid": valid,
        "tool_calls_empty": np.minimum(valid, rng.integers(0, 3, responses)),
        "truncated": rng.random(responses) < 0.2,
        "first_feedback": rng.integers(-1, 2, responses),
        "trained": bool(rng.integers(2)),
        "clip_range": (0.2, 0.28),
        "control_ids": [1],
    }


def close(name: str, found: float, expected: float) -> bool:
    """Return whether two values are the same to rounding, or to the bin where the signal is a quantile."""
    if name in ("ratio/p999", "length/p95"):
        return abs(math.log(found / expected)) <= BIN[name]
    if name in BIN:
        return abs(found - max(expected, -16.0)) <= BIN[name]
    return found == expected or math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
