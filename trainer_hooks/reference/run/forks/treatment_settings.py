"""The settings of each treatment (`trainer_hooks.forks.TREATMENTS`) in the reference trainer."""

from dataclasses import replace
from typing import Any

from trainer_hooks.forks import CONTROL
from trainer_hooks.reference.updates.adjustment import Adjustment
from trainer_hooks.reference.updates.learner import Learner

__all__ = ["adjustments"]

_RATES: dict[str, float] = {"half-rate": 0.5, "tenth-rate": 0.1}
_SETTINGS: dict[str, dict[str, Any]] = {
    "llds": {"method": "llds", "lambda_": 0.1, "answer_weight": 0.0, "answer_adaptive": False},
    "kl": {"kl": 0.01},
    "nthr": {"method": "nthr", "lambda_": None, "answer_weight": 0.0, "answer_adaptive": False},
    "clip-higher": {"clip_high": 0.28},
}


def adjustments(learner: Learner) -> dict[str, Adjustment]:
    """Return the adjustment of every fork that the run may have, the control first.

    A treatment is left out if it, or more of it, is already in force, if it can do nothing, if the settings refuse it,
    or if it would add or remove a critic, because checkpoints contain the critic.
    """
    now, found = learner.adjustment, {CONTROL: learner.adjustment}
    found |= {name: now.after_fork(lr=rate, settings={}) for name, rate in _RATES.items()}
    is_at_old_policy = learner.config.is_at_old_policy
    is_left_out = {
        "llds": is_at_old_policy or learner.llds_weight >= _SETTINGS["llds"]["lambda_"],
        "kl": learner.config.kl >= _SETTINGS["kl"]["kl"],
        "clip-higher": is_at_old_policy or learner.config.clip_range[1] >= _SETTINGS["clip-higher"]["clip_high"],
    }
    for name, settings in _SETTINGS.items():
        if is_left_out.get(name):
            continue
        try:
            treated = replace(learner.config, **settings)
        except ValueError:
            continue
        if treated != learner.config and treated.optimises.has_critic == learner.config.optimises.has_critic:
            found[name] = now.after_fork(lr=1.0, settings=settings)
    return found
