"""The trainer: sample, score, update, measure, tell. Read from the top; each idea has a page of its own.

Tool-integrated GRPO (eq. 1), or one of the methods built on it. What it measures goes out through the public SDK and
nothing else; what it draws comes from generators of its own.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from trainer_hooks.reference.config import Config
from trainer_hooks.reference.facts.world import FactsWorld
from trainer_hooks.reference.protocols import Policy, Rollout, World
from trainer_hooks.reference.run.held_out import HeldOut
from trainer_hooks.reference.run.ranks import ALONE, Ranks
from trainer_hooks.reference.run.treatment import Treatment
from trainer_hooks.reference.updates.batch import TrainingBatch, prepare, select
from trainer_hooks.reference.updates.learner import Learner
from trainer_hooks.reference.updates.probe import displacement_by_question, gwhes_by_question

__all__ = ["StepResult", "Trainer", "TrainingError"]

_RESEED = 1_000_003
"""Far from any seed that a person would choose for another run."""


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what to change."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step.

    Attributes:
        step: Its number, from 1.
        batch: What this rank trained on.
        grad_norm: Mean norm of its gradients, before clipping.
        scalars: Numbers by their canonical names, over all ranks.
        skipped: Updates left out because the gradient was not finite, of so many.
        control_ids: Token ids of the protocol's tags.
        displaced: Δ(x) of eq. 3 by group number, over all ranks, at a step with a probe.
    """

    step: int
    batch: TrainingBatch
    grad_norm: float
    scalars: dict[str, float]
    skipped: tuple[int, int]
    control_ids: Sequence[int]
    displaced: Mapping[int, float]


class Trainer:
    """One policy trained in one world.

    Args:
        config: Every setting.
        model: The policy, trained in place, on its device.
        world: What it is asked and answered by; default the built-in world.
        ranks: The processes that train it together.

    Raises:
        ValueError: If minibatches cannot be dealt out to the ranks in whole groups.
    """

    def __init__(self, config: Config, model: Policy, world: World | None = None, *, ranks: Ranks = ALONE) -> None:
        if config.questions_per_step % (config.minibatches * ranks.size):
            raise ValueError(
                f"questions_per_step must be a multiple of minibatches times ranks, got {config.questions_per_step} "
                f"with {config.minibatches} minibatches and {ranks.size} ranks: lower minibatches"
            )
        self.config = config
        self.model = model
        self.ranks = ranks
        self.learner = Learner(config, model, ranks)
        self.generator = torch.Generator(next(model.parameters()).device).manual_seed(config.seed)
        self.world = world or FactsWorld(config)
        self.draw = random.Random(config.seed)
        self.step_number = 0

    def step(self) -> StepResult:
        """Take a step: `sample`, then `learn` from it."""
        return self.learn(*self.sample())

    def sample(self) -> tuple[Rollout, Rollout]:
        """Play the step's training groups and, in the same sweep, fresh held-out questions once each.

        Raises:
            TrainingError: If no response has an action token.
            Exception: What the world raises, such as a tool that does not answer; the trainer is then where it was
                after the last step, draws included.
        """
        drawn = self.generator.get_state(), self.draw.getstate()
        try:
            return self._sample()
        except Exception:
            self.generator.set_state(drawn[0])
            self.draw.setstate(drawn[1])
            raise

    def learn(self, training: Rollout, held_out: Rollout) -> StepResult:
        """Pass over a rollout batch ``epochs`` times, measure, and give what was seen.

        Raises:
            TrainingError: If the weights give no probabilities any more.
        """
        config, learner = self.config, self.learner
        learner.set_rate(self.step_number)
        batch = prepare(self.model, training, config, generator=self.generator, critic=learner.critic, ranks=self.ranks)
        probe = HeldOut.before(self.model, held_out, self.ranks) if held_out.episodes else None
        is_probed = config.probe_every > 0 and self.step_number % config.probe_every == 0
        displaced = self._by_question(displacement_by_question(learner, batch)) if is_probed else {}
        scalars = self._probed(batch, displaced) if displaced else {}
        updates = [learner.update(batch, part) for _ in range(config.epochs) for part in batch.shuffled(self.generator)]
        self.step_number += 1
        self._require_a_policy(batch)
        scalars |= self._means(updates) | batch.told
        grad_norm = scalars.pop("grad/norm")
        scalars["lr"] = learner.optimiser.param_groups[0]["lr"]
        if probe is not None:
            scalars |= probe.after(self.model) | {"eval/reward": held_out.rewards.mean().item()}
        return StepResult(
            step=self.step_number,
            batch=batch,
            grad_norm=grad_norm,
            scalars=scalars,
            skipped=(sum(not math.isfinite(update["grad/norm"]) for update in updates), len(updates)),
            control_ids=self.world.control_ids,
            displaced=displaced,
        )

    def state(self) -> dict[str, object]:
        """Give everything that the next step depends on: tensors and plain values."""
        return self.learner.state() | {
            "step": self.step_number,
            "generator": self.generator.get_state(),
            "draw": self.draw.getstate(),
            "treatment": asdict(self.learner.treatment),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state` gave, to the last bit."""
        self.step_number = state["step"]
        self.learner.load_state(state)
        self.learner.treatment = Treatment(**state["treatment"])
        self.generator.set_state(state["generator"])
        self.draw.setstate(state["draw"])

    def reseed(self, number: int) -> None:
        """Leave the path that led here: after a rollback the same draws would lead to the same place."""
        self.generator.manual_seed(self.config.seed + _RESEED * number)
        self.draw.seed(self.config.seed + _RESEED * number)

    def _sample(self) -> tuple[Rollout, Rollout]:
        config = self.config
        self.model.eval()
        asked = self.draw.sample(self.world.questions, config.questions_per_step)
        unseen = self.world.held_out(self.draw, config.held_out)
        questions = [question for question in asked for _ in range(config.group_size)] + unseen
        rollout = self.model.sample(
            self.world,
            [self.world.episode(question) for question in questions],
            generator=self.generator,
            temperature=config.temperature,
        )
        # A tool that answers ranks differently has them draw differently; what follows must be dealt out alike.
        self.generator.set_state(self.ranks.agree(self.generator.get_state()))
        if not rollout.mask.any():
            raise TrainingError(
                f"a response must have an action token, got none in {len(questions)} of step {self.step_number + 1}: "
                "prompts leave no room in the context; raise --context"
            )
        rows = torch.arange(len(questions))
        return select(rollout, rows[: len(rows) - len(unseen)]), select(rollout, rows[len(rows) - len(unseen) :])

    def _by_question(self, found: dict[int, float]) -> dict[int, float]:
        """Lay together what the ranks found for their own questions."""
        return {group: value for held in self.ranks.gather(found) for group, value in held.items()}

    def _probed(self, batch: TrainingBatch, displaced: Mapping[int, float]) -> dict[str, float]:
        """Sum a probe of eq. 3 up, and say what GWHES has to say of the same questions (eq. 9)."""
        weight = self._by_question(gwhes_by_question(self.model, batch))
        return {
            "probe/displacement_mean": sum(displaced.values()) / len(displaced),
            "probe/fell_frac": sum(change < 0 for change in displaced.values()) / len(displaced),
            "similarity/gwhes": sum(weight.values()) / len(weight),
        }

    def _means(self, updates: list[dict[str, float]]) -> dict[str, float]:
        """Average what updates told, over updates and ranks."""
        means = {name: sum(update[name] for update in updates) / len(updates) for name in updates[0]}
        total = self.ranks.sum(torch.tensor(list(means.values()), dtype=torch.float64)) / self.ranks.size
        return dict(zip(means, total.tolist(), strict=True))

    @torch.no_grad()
    def _require_a_policy(self, batch: TrainingBatch) -> None:
        """Refuse weights under which there are no probabilities to sample from."""
        if not self.model.logits(self.model.hidden(batch.tokens[:1])[:, -1]).isfinite().all():
            raise TrainingError(
                f"logits must be finite, got NaN or Inf after the updates of step {self.step_number}: the weights are "
                "lost; lower --lr, or go on from an older checkpoint with --resume"
            )
