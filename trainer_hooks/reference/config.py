"""The checked settings of the reference trainer, and the command line built from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self, get_args

from trainer_hooks.reference.command_line import parser_of
from trainer_hooks.reference.config_fields import (
    ConfigFields,
    Device,
    MatmulPrecision,
    OldLogprobs,
    OnAcceleration,
    Precision,
    ProbeOptimiser,
)
from trainer_hooks.reference.methods import METHODS
from trainer_hooks.reference.presets import PRESETS, require_own_model

__all__ = ["Config"]


@dataclass(frozen=True, kw_only=True)
class Config(ConfigFields):
    """Settings of one run. Everything random derives from ``seed``, except the environment and the warm start.

    Raises:
        ValueError: If a setting cannot work; the message names it.
    """

    def __post_init__(self) -> None:
        for name, allowed in (
            ("method", METHODS),
            ("on_acceleration", get_args(OnAcceleration)),
            ("device", get_args(Device)),
            ("precision", get_args(Precision)),
            ("matmul_precision", get_args(MatmulPrecision)),
            ("probe_optimiser", get_args(ProbeOptimiser)),
            ("old_logprobs", get_args(OldLogprobs)),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        self._check_ranges()
        self._check_finite()
        dealt = self.questions_per_step * (self.group_size if self.split_groups else 1)
        if dealt % self.minibatches:
            what = "questions_per_step times group_size" if self.split_groups else "questions_per_step"
            raise ValueError(f"minibatches must divide {what}, got {self.minibatches} and {dealt}")
        if self.on_acceleration not in ("none", "stop") and not self.checkpoint_every:
            raise ValueError(f"on_acceleration {self.on_acceleration} needs checkpoints: set checkpoint_every")
        folder = Path(self.run_name)
        if self.checkpoints is None and (folder.is_absolute() or ".." in folder.parts):
            raise ValueError(f"run must name a folder below the checkpoints, got {self.run_name!r}")
        self._check_effect()

    def _check_ranges(self) -> None:
        for name in _POSITIVE.split():
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        for name in _NOT_NEGATIVE.split():
            if not (getattr(self, name) or 0.0) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in _SHARES.split():
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be in [0, 1], got {getattr(self, name)}")
        if not -(2**63) <= self.seed < 2**63:
            raise ValueError(f"seed must be a whole number of 64 bits, as torch's generators take, got {self.seed}")
        if self.threads > _MOST_THREADS:
            raise ValueError(f"threads must be at most {_MOST_THREADS}, got {self.threads}")
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got {self.width} and {self.heads}")

    def _check_finite(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value) and name not in _MAY_BE_INFINITE.split():
                raise ValueError(f"{name} must be a finite number, got {value}")

    def _check_effect(self) -> None:
        """Raise an error where a requested part would silently have no effect."""
        self._check_task()
        if self.lambda_ is not None and not self.optimises.has_weight:
            weighed = ", ".join(name for name, method in METHODS.items() if method.has_weight)
            raise ValueError(f"lambda_ must be given with a method that it weighs ({weighed}), got {self.method!r}")
        if not self.thought_words and (self.thought_choices, self.wrong_thought_factor) != (4, 1.0):
            raise ValueError(
                "thought_choices and wrong_thought_factor shape the free-form text of thoughts: set thought_words "
                "above 0"
            )
        if (self.answer_weight or self.answer_adaptive) and not self.optimises.masks_answer:
            raise ValueError(
                f"answer_weight and answer_adaptive must be given with llds-ma or llds-ma-action, got {self.method!r}"
            )
        if self.clip_high is not None and (self.optimises.adapts_clip or self.optimises.holds_covariance):
            raise ValueError(f"clip_high has no effect under {self.method}, which has another clip or none")
        if self.answer_adaptive and not self.answer_weight:
            raise ValueError("answer_adaptive multiplies answer_weight, which must be above 0, got 0")
        if self.group_size == 1 and not self.optimises.has_critic:
            raise ValueError(
                f"group_size must be at least 2 under {self.method}, got 1: a response alone in its group has "
                "advantage 0 and teaches nothing; raise it, or use the method ppo"
            )

    def _check_task(self) -> None:
        if (self.model is None) != (self.questions is None):
            raise ValueError(
                "model and questions go together: the built-in model knows the built-in environment's words only"
            )
        if self.protocol_steps and self.model is None:
            raise ValueError(
                "protocol_steps must be given with --model, a model of your own; the built-in one has warm_steps"
            )
        if self.protocol_steps and self.max_actions < 2:  # noqa: PLR2004 - to search, and to answer
            raise ValueError(
                "max_actions must be at least 2 with protocol_steps, which teach to search and then to answer, got "
                f"{self.max_actions}"
            )
        tools = (self.corpus is not None) + (self.retriever is not None)
        if tools != (self.questions is not None):
            raise ValueError("questions need exactly one search tool, corpus or retriever, and a tool needs questions")

    @classmethod
    def from_command_line(cls, arguments: Sequence[str] | None = None) -> Self:
        """Read the command line: a preset's settings, then the options given."""
        parser = parser_of(fields(cls), sorted(PRESETS))
        given = vars(parser.parse_args(arguments))
        preset = given.pop("preset")
        chosen = PRESETS.get(preset, {})
        try:
            require_own_model(preset, given["model"])
            config = cls(**(chosen | {name: value for name, value in given.items() if value is not None}))
            # A run that is resumed under another method needs the settings that it has begun with.
            if not config.resume:
                _require_effect(config, given)
            return config  # noqa: TRY300 - the errors of both calls are printed
        except ValueError as error:
            parser.error(str(error))


def _require_effect(config: Config, given: Mapping[str, object]) -> None:
    """Refuse options that change nothing beside the others; a preset may have such settings.

    Raises:
        ValueError: If one was given.
    """
    for names, (other, *values) in _EFFECTIVE_WITH.items():
        found = getattr(config, other)
        for name in names.split():
            if given[name] not in (None, getattr(Config, name)) and not (found in values if values else found):
                needed = " ".join((other, " or ".join(values))).strip()
                raise ValueError(f"{name} has no effect without {needed}, got {given[name]}")


_EFFECTIVE_WITH = {
    "covariance_share": ("method", "kl-cov"),
    "target_entropy": ("method", "stare"),
    "critic_lr discount gae_lambda": ("method", "ppo"),
    "probe_optimiser probe_sweep": ("probe_every",),
    "recompute_responses": ("recompute_every",),
    "precision prompt topk max_feedback_tokens tool_timeout": ("model",),
    "protocol_lr": ("protocol_steps",),
    "rollback_lr": ("on_acceleration", "rollback", "rollback+llds"),
    "max_rollbacks": ("on_acceleration", "rollback", "rollback+llds", "fork"),
    "fork_steps fork_questions": ("on_acceleration", "fork"),
}
"""Settings that have an effect beside another one only: that one, and its values if not any but 0 and None will do."""
_POSITIVE = (
    "steps lr critic_lr questions_per_step minibatches epochs temperature top_p clip group_size max_actions width "
    "layers threads rollback_lr topk max_feedback_tokens tool_timeout max_action_tokens context thought_choices "
    "wrong_thought_factor covariance_share fork_steps fork_questions protocol_lr heads entities train_questions "
    "warm_steps warm_lr recompute_responses clip_high"
)
_SHARES = "discount gae_lambda rollback_lr answer_weight top_p covariance_share long_form"
_MOST_THREADS = 4096
"""More than any machine has use for; torch does not survive some ten thousand."""
_MAY_BE_INFINITE = "clip clip_high max_grad_norm"
"""Limits: without an end they limit nothing."""
_NOT_NEGATIVE = (
    "lambda_ target_entropy kl entropy_bonus weight_decay held_out max_grad_norm lr_warmup probe_every decompose_every "
    "checkpoint_every max_rollbacks protocol_steps thought_words recompute_every"
)
