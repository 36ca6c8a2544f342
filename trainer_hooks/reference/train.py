"""The trainer: sample, score, update, measure, tell. Read from the top; each idea has a page of its own.

Tool-integrated GRPO (eq. 1) with an optional KL term and LLDS (eq. 4 to 7). What it measures goes out through the
public SDK and nothing else; what it draws comes from generators of its own.
"""

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainer_hooks.losses import grpo_loss, llds_loss
from trainer_hooks.reference.batch import TrainingBatch, prepare
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.facts_world import FactsWorld
from trainer_hooks.reference.held_out import HeldOut
from trainer_hooks.reference.model import token_statistics
from trainer_hooks.reference.placebo import likelihood_placebo
from trainer_hooks.reference.probe import displacement_by_question, gwhes_by_question
from trainer_hooks.reference.protocols import Policy, Rollout, World

__all__ = ["StepResult", "Trainer"]

_RESEED = 1_000_003
"""Far from any seed that a person would choose for another run."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step: the batch it trained on, the norm of its gradients, numbers by their canonical names, the tags' ids.

    ``displaced`` is Δ(x) of eq. 3 by group number, at a step with a probe.
    """

    step: int
    batch: TrainingBatch
    grad_norm: float
    scalars: dict[str, float]
    control_ids: Sequence[int]
    displaced: Mapping[int, float]


class Trainer:
    """GRPO on one world from one warm start.

    Args:
        config: Every setting.
        model: The policy, trained in place; a copy of it stays as the reference where ``config.kl`` asks for one.
        world: What it is asked and answered by; default the built-in world.
    """

    def __init__(self, config: Config, model: Policy, world: World | None = None) -> None:
        self.config = config
        self.model = model
        self.reference = copy.deepcopy(model).requires_grad_(requires_grad=False) if config.kl > 0 else None
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.0)
        self.generator = torch.Generator().manual_seed(config.seed)
        self.world = world or FactsWorld(config)
        self.draw = random.Random(config.seed)
        self.step_number = 0

    def step(self) -> StepResult:
        """Sample a rollout batch, pass over it ``epochs`` times, measure, and give what was seen."""
        config = self.config
        self.model.eval()
        self._set_learning_rate()
        training, held_out = self._sample()
        batch = prepare(
            self.model,
            training,
            group_size=config.group_size,
            minibatches=config.minibatches,
            generator=self.generator,
            nthr=config.nthr,
        )
        probe = HeldOut.before(self.model, held_out) if held_out.episodes else None
        is_probed = config.probe_every > 0 and self.step_number % config.probe_every == 0
        displaced = self._displaced(batch) if is_probed else {}
        scalars = self._probed(batch, displaced) if displaced else {}
        updates = [self._update(batch, rows) for _ in range(config.epochs) for rows in batch.shuffled(self.generator)]
        self.step_number += 1
        scalars |= {name: sum(update[name] for update in updates) / len(updates) for name in updates[0]}
        grad_norm = scalars.pop("grad/norm")
        scalars["lr"] = self.optimiser.param_groups[0]["lr"]
        if probe is not None:
            scalars |= probe.after(self.model) | {"eval/reward": held_out.rewards.mean().item()}
        return StepResult(self.step_number, batch, grad_norm, scalars, self.world.control_ids, displaced)

    def state(self) -> dict[str, object]:
        """Give everything that the next step depends on: tensors and plain values."""
        return {
            "step": self.step_number,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "generator": self.generator.get_state(),
            "draw": self.draw.getstate(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state` gave, to the last bit."""
        self.step_number = state["step"]
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.draw.setstate(state["draw"])

    def reseed(self, number: int) -> None:
        """Leave the path that led here: after a rollback the same draws would lead to the same place."""
        self.generator.manual_seed(self.config.seed + _RESEED * number)
        self.draw.seed(self.config.seed + _RESEED * number)

    def _set_learning_rate(self) -> None:
        share = min(1.0, (self.step_number + 1) / self.config.lr_warmup) if self.config.lr_warmup else 1.0
        for group in self.optimiser.param_groups:
            group["lr"] = self.config.lr * share

    def _sample(self) -> tuple[Rollout, Rollout]:
        """Play the step's training groups and, in the same sweep, fresh held-out questions once each."""
        config = self.config
        asked = self.draw.sample(self.world.questions, config.questions_per_step)
        unseen = self.world.held_out(self.draw, config.held_out)
        questions = [question for question in asked for _ in range(config.group_size)] + unseen
        rollout = self.model.sample(
            self.world,
            [self.world.episode(question) for question in questions],
            generator=self.generator,
            temperature=config.temperature,
        )
        return _split(rollout, len(questions) - len(unseen))

    def _displaced(self, batch: TrainingBatch) -> dict[int, float]:
        """Ask of each mixed question what its own update would do to it (eq. 3)."""
        return displacement_by_question(self.model, self.optimiser, batch, lambda rows: self._update(batch, rows))

    def _probed(self, batch: TrainingBatch, displaced: Mapping[int, float]) -> dict[str, float]:
        """Sum a probe up, and say what GWHES has to say of the same questions (eq. 9)."""
        weight = gwhes_by_question(self.model, batch)
        return {
            "probe/displacement_mean": sum(displaced.values()) / len(displaced),
            "probe/fell_frac": sum(change < 0 for change in displaced.values()) / len(displaced),
            "similarity/gwhes": sum(weight.values()) / len(weight),
        }

    def _update(self, batch: TrainingBatch, rows: Tensor) -> dict[str, float]:
        """Take one optimiser step on a minibatch; give its losses and the norm of its gradient before clipping.

        Where the norm is NaN or Inf the weights stay as they are.
        """
        config = self.config
        logprobs, _ = token_statistics(self.model, batch.tokens[rows], batch.mask[rows])
        batch.logprobs[rows] = logprobs.detach()
        shared = (logprobs, batch.old_logprobs[rows], batch.mask[rows], batch.advantages[rows])
        scales = None if batch.token_scales is None else batch.token_scales[rows]
        policy = grpo_loss(*shared, clip_low=config.clip, clip_high=config.clip, token_scales=scales)
        llds = llds_loss(
            *shared,
            gate=config.gate,
            answer_mask=batch.answer_mask[rows] if config.mask_answer else None,
        )
        losses = {"loss/policy": policy, "loss/llds": llds}
        total = policy + config.lambda_ * llds
        if config.placebo:
            total = total + config.placebo * likelihood_placebo(logprobs, batch.mask[rows], batch.advantages[rows])
        if self.reference is not None:
            losses["kl/ref"] = _kl(self.reference, batch, rows, logprobs)
            total = total + config.kl * losses["kl/ref"]
        self.optimiser.zero_grad()
        torch.autograd.backward(total)
        limit = config.max_grad_norm or torch.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit)
        # A gradient that is not finite would poison every weight; its norm is told as it is, so the failure is seen.
        if norm.isfinite():
            self.optimiser.step()
        return {name: loss.item() for name, loss in losses.items()} | {"grad/norm": norm.item()}


def _kl(reference: Policy, batch: TrainingBatch, rows: Tensor, logprobs: Tensor) -> Tensor:
    """Estimate KL(π_θ ‖ π_ref) a token by k3: r − ln r − 1 with r = π_ref/π_θ."""
    mask = batch.mask[rows]
    with torch.no_grad():
        held, _ = token_statistics(reference, batch.tokens[rows], mask)
    log_ratio = (held - logprobs) * mask
    return (log_ratio.exp() - log_ratio - 1).sum() / mask.sum().clamp(min=1)


def _split(rollout: Rollout, at: int) -> tuple[Rollout, Rollout]:
    first, second = (
        Rollout(rollout.tokens[rows], rollout.mask[rows], rollout.rewards[rows], rollout.truncated[rows], episodes)
        for rows, episodes in (
            (slice(None, at), rollout.episodes[:at]),
            (slice(at, None), rollout.episodes[at:]),
        )
    )
    return first, second
