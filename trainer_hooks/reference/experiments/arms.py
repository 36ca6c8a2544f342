"""The arms of the experiments: the changes of each to the settings of a preset."""

from dataclasses import replace
from typing import Any

from trainer_hooks.reference.config import Config

__all__ = ["ARMS", "PROBE_ARMS", "SEEDS", "configure_arm"]

SEEDS = (0, 1, 2, 3, 4)

_LLDS: dict[str, Any] = {"method": "llds"}

ARMS: dict[str, dict[str, Any]] = {
    # The probe of eq. 3 restores all state, so the run is bit for bit the same with and without it.
    # The recordings were made with the run's own optimiser, and the pages in docs/experiments are made from them.
    "grpo": {"probe_every": 5, "probe_optimiser": "run"},
    "llds-0.01": _LLDS | {"lambda_": 0.01},
    "llds-0.1": _LLDS,
    "llds-0.1-action": {"method": "llds-action"},
    "lld-0.1": {"method": "lld"},
    "llds-release": {"method": "llds-release"},
    "llds-release-response": {"method": "llds-release-response"},
    "llds-ma-0.1": {"method": "llds-ma"},
    "nthr": {"method": "nthr"},
    "ppo": {"method": "ppo"},
    "kl-0.001": {"kl": 0.001},
    "kl-0.01": {"kl": 0.01},
    "clip-higher": {"clip_high": 0.28},
    "kl-cov": {"method": "kl-cov"},
    "stare": {"method": "stare"},
    "acpo": {"method": "acpo"},
    "placebo-0.1": {"method": "placebo"},
    "half-lr": {"lr_factor": 0.5},
    "quarter-lr": {"lr_factor": 0.25},
    "low-lr": {"lr": 3e-4, "lr_warmup": 50},
    "no-retry": {"retry": False},
    # Sizes and warm starts (Fig. 6). The stronger warm start corresponds to the paper's instruct model.
    "grpo-narrow": {"width": 48},
    "llds-narrow": _LLDS | {"width": 48},
    "grpo-wide": {"width": 96},
    "llds-wide": _LLDS | {"width": 96},
    "grpo-strong": {"warm_steps": 1800},
    "llds-strong": _LLDS | {"warm_steps": 1800},
}
"""The changes of each arm to the settings of a preset; ``lr_factor`` multiplies the preset's learning rate."""

PROBE_ARMS: dict[str, dict[str, Any]] = {
    # This arm trains exactly as grpo, and measures more.
    "grpo-sweep": {"probe_every": 20, "probe_sweep": True, "decompose_every": 20},
    # The sweep at every second step, for the short runs of a pretrained model: their decomposition needs too much
    # memory.
    "grpo-sweep-short": {"probe_every": 2, "probe_sweep": True},
    # This arm trains as grpo as well: the causes of the change of held-out responses, at every tenth step.
    "grpo-decompose": {"decompose_every": 10},
    # Minibatches consist of responses instead of whole groups. This shows how d of a correct response depends on the
    # updates on its siblings before.
    "grpo-split": {"split_groups": True},
    # The divisor of the authors' release: the unbiased standard deviation of a group.
    "grpo-unbiased": {"unbiased_std": True},
    "llds-release-unbiased": {"unbiased_std": True, "method": "llds-release"},
    # The search for the peak learning rate at which runs with a schedule collapse.
    "grpo-3e-3": {"lr": 3e-3},
    "grpo-5e-3": {"lr": 5e-3},
    "grpo-1e-2": {"lr": 1e-2},
    # The same for a pretrained model, with LLDS at the same rates.
    "grpo-1e-4": {"lr": 1e-4},
    "grpo-2e-4": {"lr": 2e-4},
    "grpo-4e-4": {"lr": 4e-4},
    "llds-1e-4": _LLDS | {"lr": 1e-4},
    "llds-2e-4": _LLDS | {"lr": 2e-4},
    "llds-4e-4": _LLDS | {"lr": 4e-4},
    "placebo-2e-4": {"method": "placebo", "lr": 2e-4},
    # Without the entropy bonus of the release, which is the whole gradient of a batch whose groups have no contrast.
    "grpo-2e-4-no-bonus": {"lr": 2e-4, "entropy_bonus": 0.0},
}
"""Arms that ask what an update does; their runs are not in the table of all arms."""


def configure_arm(base: Config, arm: str, seed: int) -> Config:
    """Apply an arm and a seed to a preset's settings.

    Raises:
        ValueError: If there is no such arm; those of `rescue` are not arms of other experiments.
    """
    arms = ARMS | PROBE_ARMS
    if arm not in arms:
        raise ValueError(f"an arm of this experiment must be one of {', '.join(arms)}, got {arm!r}")
    changed = dict(arms[arm])
    slower = {"lr": base.lr * changed.pop("lr_factor", 1.0)}
    return replace(base, seed=seed, **slower | changed)
