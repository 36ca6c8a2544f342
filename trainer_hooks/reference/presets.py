"""Presets of the reference trainer: the settings of each regime, by name."""

from pathlib import Path
from typing import Any

__all__ = ["OWN_MODEL_PRESETS", "PRESETS", "require_own_model"]

_STUBBORN: dict[str, Any] = {
    "lr": 1e-3,
    "lr_warmup": 500,
    "retry": False,
    "long_form": 0.15,
    "questions_per_step": 4,
    "group_size": 16,
    "minibatches": 4,
    "epochs": 4,
    "held_out": 16,
    "steps": 500,
}

_RELEASE: dict[str, Any] = {
    "lr_warmup": 286,
    "kl": 1e-3,
    "entropy_bonus": 1e-3,
    "weight_decay": 0.01,
    "top_p": 0.95,
    "group_size": 5,
    "minibatches": 10,
    "epochs": 1,
}
"""The settings of the authors' training script that do not depend on the model: a warm-up of the learning rate over
0.285 · 1005 = 286 steps, and 10 updates a step."""

_SCALED_RELEASE: dict[str, Any] = _RELEASE | {
    "lr": 1e-3,
    "questions_per_step": 80,
    "train_questions": 4000,
    "retry": False,
    "long_form": 0.15,
    "steps": 500,
}

_PRETRAINED: dict[str, Any] = _RELEASE | {
    "lr": 1e-4,
    "lr_warmup": 60,
    "questions_per_step": 20,
    "held_out": 20,
    "topk": 2,
    "protocol_steps": 40,
    "protocol_lr": 5e-5,
    "max_actions": 3,
    "max_action_tokens": 40,
    "max_feedback_tokens": 96,
    "context": 448,
    "retry": False,
    "steps": 150,
}

PRESETS: dict[str, dict[str, Any]] = {
    # The learning rate rises too high and wrong responses are longer: the reward rises, drifts, and collapses.
    "demo": {"lr": 6e-4, "lr_warmup": 100, "held_out": 32, "steps": 150},
    # A longer warm-up, and wrong responses as long as right ones: correct responses drift slowly first.
    "spiral": {"lr": 1.2e-3, "lr_warmup": 200, "retry": False, "held_out": 16, "steps": 300},
    # Near-identical wrong answers (15 % of the questions need one token more), large groups, a third of the slope.
    "stubborn": _STUBBORN,
    # The same at a constant learning rate.
    "constant": _STUBBORN | {"lr": 3e-4, "lr_warmup": 0, "steps": 600},
    # The schedule of the authors' release at a sixth of its batch: 10 updates of 8 questions in one pass, a long
    # warm-up. At this peak rate the run does not collapse.
    "release": _SCALED_RELEASE,
    # The same at a peak rate at which the run collapses during the warm-up, as the authors' runs do.
    "release-peak": _SCALED_RELEASE | {"lr": 5e-3},
    # A first action of free words that right and wrong responses share, so that GWHES above 0 is possible.
    "long-thoughts": _STUBBORN
    | {
        "thought_words": 24,
        "thought_choices": 2,
        "wrong_thought_factor": 3.0,
        "temperature": 1.2,
        "context": 320,
        "max_action_tokens": 160,
        "warm_steps": 1200,
    },
    # The settings of the authors' release for your own model, but for the size of the batch (512 questions there).
    "search-r1": _RELEASE
    | {
        "unbiased_std": True,
        "lr": 1e-6,
        "questions_per_step": 20,
        "max_actions": 4,
        "max_action_tokens": 500,
        "max_feedback_tokens": 500,
        "context": 4096,
        "retry": False,
        "steps": 300,
    },
    # The authors' schedule with fewer questions, a shorter warm-up and a higher rate, for a small pretrained model.
    "pretrained": _PRETRAINED,
    # The same from a supervised start of 8 steps, after which half of the groups have both correct and incorrect
    # responses, with the authors' share of warm-up (0.285 of the steps) at 60 steps.
    "pretrained-short": _PRETRAINED | {"protocol_steps": 8, "lr_warmup": 17, "steps": 60},
    # The same at a size that two cores train within minutes: 2 updates of one question a step, and short actions.
    "pretrained-cpu": _PRETRAINED
    | {
        "lr": 2e-5,
        "lr_warmup": 6,
        "questions_per_step": 2,
        "group_size": 4,
        "minibatches": 2,
        "held_out": 2,
        "topk": 1,
        "protocol_steps": 4,
        "protocol_lr": 1e-4,
        "max_actions": 2,
        "max_action_tokens": 32,
        "max_feedback_tokens": 32,
        "context": 256,
        "matmul_precision": "medium",
        "steps": 20,
    },
    "tiny": {
        "questions_per_step": 4,
        "group_size": 4,
        "minibatches": 2,
        "held_out": 4,
        "entities": 16,
        "width": 32,
        "layers": 1,
        "warm_steps": 250,
        "train_questions": 32,
        "steps": 4,
    },
}
"""Settings by name; a setting that a preset does not name has its default."""

OWN_MODEL_PRESETS = frozenset({"search-r1", "pretrained", "pretrained-short", "pretrained-cpu"})
"""The presets for a model of the user's own; the built-in model must not be trained with their settings."""


def require_own_model(preset: str | None, model: Path | None) -> None:
    """Refuse a preset for a model of the user's own that is given without one.

    Raises:
        ValueError: If it is.
    """
    if preset in OWN_MODEL_PRESETS and model is None:
        raise ValueError(f"--preset {preset} must be given with --model: it is for a model of your own")
