"""TRL's trainers in suite D. Only their advantages, gradients that are kept, and their sampler are changed."""

from collections.abc import Mapping
from typing import Any

import torch
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from benchmarks.detection.induced.inducing import Inducing
from benchmarks.detection.induced.sampler import Sampler
from benchmarks.detection.induced.setting import TrainerKind

__all__ = ["build_trainer"]

# RLOO's loss has one form.
GRPO_OPTIONS = ("loss_type",)


def build_trainer(
    kind: TrainerKind,
    sampler: Sampler,
    *,
    options: Mapping[str, Any],
    config: Mapping[str, Any],
    **arguments: Any,  # noqa: ANN401 - TRL's
) -> GRPOTrainer | RLOOTrainer:
    """Return a trainer that samples by a sampler.

    Args:
        kind: Which trainer.
        sampler: Samples the responses.
        options: Settings of a run, as `Setting` draws them; settings of another trainer are left out.
        config: Further arguments of the trainer's configuration.
        arguments: Arguments of the trainer itself.
    """
    if kind is TrainerKind.GRPO:
        return InducedGRPO(args=GRPOConfig(**options, **config), rollout_func=sampler, **arguments)
    kept = {name: value for name, value in options.items() if name not in GRPO_OPTIONS}
    trainer = InducedRLOO(args=RLOOConfig(**kept, **config), **arguments)
    trainer.sampler = sampler
    return trainer


class _Induced:
    """Breaks the advantages of a batch, and adds gradients that nothing has set to zero."""

    callback_handler: Any

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)  # type: ignore[misc]  # TRL's
        return batch | {"advantages": self._inducing.advantages(batch["advantages"])}

    def training_step(self, *arguments: Any, **named: Any) -> torch.Tensor:  # noqa: ANN401 - transformers' signature
        """Train on a batch, and add the gradients that were kept."""
        loss: torch.Tensor = super().training_step(*arguments, **named)  # type: ignore[misc]  # transformers'
        self._inducing.add_kept()
        return loss

    @property
    def _inducing(self) -> Inducing:
        return next(c for c in self.callback_handler.callbacks if isinstance(c, Inducing))


class InducedGRPO(_Induced, GRPOTrainer):  # type: ignore[misc]  # TRL is not typed
    """TRL's GRPO trainer, which takes a sampler as its ``rollout_func``."""


class InducedRLOO(_Induced, RLOOTrainer):  # type: ignore[misc]  # TRL is not typed
    """TRL's RLOO trainer, which takes no ``rollout_func``: the sampler stands for its tokeniser and its generation."""

    sampler: Sampler
    _rollout: Mapping[str, Any]

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        self._rollout = self.sampler(prompts, self)
        return self._rollout["prompt_ids"], None, {}

    def _generate_single_turn(self, *_: object) -> list[list[int]]:
        completions: list[list[int]] = self._rollout["completion_ids"]
        return completions
