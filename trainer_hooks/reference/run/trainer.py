"""The trainer: sample, score, update, measure, report. Other modules implement each of these parts.

It trains with tool-integrated GRPO (eq. 1), or with one of the methods built on it. Measurements leave it through the
public SDK only, and every random draw comes from its own generators.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from trainer_hooks.probes.recomputation import RecomputationProbe
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.reference.builtin_task.environment import FactsEnvironment
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.distributed import SINGLE_PROCESS, Ranks
from trainer_hooks.reference.measurements.decomposition import Decomposition
from trainer_hooks.reference.measurements.held_out_changes import HeldOut
from trainer_hooks.reference.measurements.question_probe import (
    MULTIPLIERS,
    QuestionProbe,
    probe_questions,
    probe_signals,
)
from trainer_hooks.reference.measurements.recomputation import recompute_batch
from trainer_hooks.reference.measurements.siblings import sibling_signals
from trainer_hooks.reference.protocols import Environment, Policy, Rollout
from trainer_hooks.reference.updates.adjustment import Adjustment
from trainer_hooks.reference.updates.batch import TrainingBatch, prepare, select
from trainer_hooks.reference.updates.learner import Learner

__all__ = ["DivergenceError", "StepResult", "Trainer", "TrainingError"]

_RESEED = 1_000_003
"""Added to the seed after a rollback: far from the seed of any other run."""


class TrainingError(RuntimeError):
    """Training cannot go on; the message has the reason and what to change."""


class DivergenceError(TrainingError, FloatingPointError):
    """The weights give no finite probabilities any more."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step.

    Attributes:
        step: Its number, from 1.
        batch: The responses that this rank trained on.
        grad_norm: Mean norm of its gradients, before clipping.
        scalars: Numbers by their canonical names, over all ranks.
        skipped: The number of updates left out because the gradient was not finite, and the number of all updates.
        control_ids: Token ids of the protocol's tags.
        probes: Probes of eq. 3 and GWHES by group number, over all ranks, at a step with a probe.
        recomputed: This rank's numbers of a few responses, beside the same ones computed again, where that is due.
    """

    step: int
    batch: TrainingBatch
    grad_norm: float
    scalars: dict[str, float]
    skipped: tuple[int, int]
    control_ids: Sequence[int]
    probes: Mapping[int, QuestionProbe]
    recomputed: Sequence[Recomputed] = ()


class Trainer:
    """One policy trained in one environment.

    Args:
        config: Every setting.
        model: The policy, trained in place, on its device.
        environment: Has the questions of its episodes and answers their actions; default the built-in one.
        ranks: The processes that train it together.

    Raises:
        ValueError: If minibatches cannot be divided among the ranks in whole groups, a setting needs a single process,
            or the environment has fewer questions than a step asks.
    """

    def __init__(
        self, config: Config, model: Policy, environment: Environment | None = None, *, ranks: Ranks = SINGLE_PROCESS
    ) -> None:
        if not config.split_groups and config.questions_per_step % (config.minibatches * ranks.size):
            raise ValueError(
                f"questions_per_step must be a multiple of minibatches times ranks, got {config.questions_per_step} "
                f"with {config.minibatches} minibatches and {ranks.size} ranks: lower minibatches"
            )
        if (config.decompose_every or config.split_groups) and ranks.size > 1:
            raise ValueError(f"decompose_every and split_groups need a single process, got {ranks.size} ranks")
        if config.optimises.compares_tokens and ranks.size > 1:
            raise ValueError(f"method {config.method} needs a single process, got {ranks.size} ranks")
        self.config = config
        self.model = model
        self.ranks = ranks
        self.learner = Learner(config, model, ranks)
        self.generator = torch.Generator(next(model.parameters()).device).manual_seed(config.seed)
        self.environment = environment or FactsEnvironment(config)
        if len(self.environment.questions) < config.questions_per_step:
            raise ValueError(
                f"questions_per_step must be at most the number of questions to train on, got "
                f"{config.questions_per_step} and {len(self.environment.questions)}"
            )
        self.draw = random.Random(config.seed)
        self.step_number = 0
        self._recomputation = (
            RecomputationProbe(config.recompute_every, responses=config.recompute_responses)
            if config.recompute_every
            else None
        )

    def step(self) -> StepResult:
        """Take a step: `sample`, then `learn` from it."""
        return self.learn(*self.sample())

    def sample(self) -> tuple[Rollout, Rollout]:
        """Sample the step's training groups and, in the same batch, one response to each fresh held-out question.

        Raises:
            TrainingError: If no response has an action token.
            Exception: Any error of the environment, such as a tool that does not answer; the trainer's state is then
                that of the last step, generators included.
        """
        drawn = self.generator.get_state(), self.draw.getstate()
        try:
            return self._sample()
        except Exception:
            self.generator.set_state(drawn[0])
            self.draw.setstate(drawn[1])
            raise

    def learn(self, training: Rollout, held_out: Rollout) -> StepResult:
        """Pass over a rollout batch ``epochs`` times, measure, and return the measurements.

        Raises:
            DivergenceError: If the weights give no finite probabilities any more.
        """
        config, learner = self.learner.config, self.learner
        learner.set_rate(self.step_number)
        batch = prepare(self.model, training, config, generator=self.generator, critic=learner.critic, ranks=self.ranks)
        recomputed = self._recompute(batch)
        probe = HeldOut.before(self.model, held_out, self.ranks) if held_out.episodes else None
        is_probed = config.probe_every > 0 and self.step_number % config.probe_every == 0
        probes = self._probe(batch) if is_probed else {}
        scalars = probe_signals(probes)
        splits = config.decompose_every > 0 and self.step_number % config.decompose_every == 0
        decomposition = Decomposition(learner, batch, probe) if splits else None
        updates: list[dict[str, float]] = []
        siblings: dict[str, float] = {}
        for epoch in range(config.epochs):
            order = list(batch.shuffle(self.generator))
            updates += [
                learner.update(batch, part) if decomposition is None else decomposition.update(part) for part in order
            ]
            if config.split_groups and epoch == 0:
                siblings = sibling_signals(batch, order)
        self.step_number += 1
        self._check_probabilities(batch)
        scalars |= self._means(updates) | batch.metrics | siblings
        if decomposition is not None:
            scalars |= decomposition.signals()
        grad_norm = scalars.pop("grad/norm")
        scalars["lr"] = learner.optimiser.param_groups[0]["lr"]
        if probe is not None:
            scalars |= probe.after(self.model, epsilon=config.lld_epsilon) | {
                "eval/reward": held_out.rewards.mean().item()
            }
        return StepResult(
            step=self.step_number,
            batch=batch,
            grad_norm=grad_norm,
            scalars=scalars,
            skipped=(sum(not math.isfinite(update["grad/norm"]) for update in updates), len(updates)),
            control_ids=self.environment.control_ids,
            probes=probes,
            recomputed=recomputed,
        )

    def state(self) -> dict[str, object]:
        """Return all state that the next step depends on, as tensors and plain values."""
        return self.learner.state() | {
            "step": self.step_number,
            "generator": self.generator.get_state(),
            "draw": self.draw.getstate(),
            "treatment": asdict(self.learner.adjustment),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `state` returned, bit for bit."""
        self.step_number = state["step"]
        # An adjusted KL term refers to the warm start, which the policy of a new trainer is until weights are loaded.
        self.learner.adjustment = Adjustment(**state["treatment"])
        self.learner.load_state(state)
        # A generator takes its state from the CPU only, even if it draws on a GPU.
        self.generator.set_state(state["generator"].cpu())
        self.draw.setstate(state["draw"])

    def reseed(self, number: int) -> None:
        """Reseed all draws: after a rollback the same draws would lead to the same collapse."""
        self.generator.manual_seed(self.config.seed + _RESEED * number)
        self.draw.seed(self.config.seed + _RESEED * number)

    def _sample(self) -> tuple[Rollout, Rollout]:
        config = self.config
        self.model.eval()
        asked = self.draw.sample(self.environment.questions, config.questions_per_step)
        unseen = self.environment.held_out(self.draw, config.held_out)
        questions = [question for question in asked for _ in range(config.group_size)] + unseen
        rollout = self.model.sample(
            self.environment,
            [self.environment.episode(question) for question in questions],
            generator=self.generator,
            temperature=config.temperature,
            top_p=config.top_p,
        )
        # If a tool answers ranks differently, their draws differ; but minibatches must be assigned alike on all ranks.
        self.generator.set_state(self.ranks.broadcast(self.generator.get_state()))
        if not rollout.mask.any():
            raise TrainingError(
                f"a response must have an action token, got none in {len(questions)} of step {self.step_number + 1}: "
                "prompts leave no room in the context; raise --context"
            )
        rows = torch.arange(len(questions))
        return select(rollout, rows[: len(rows) - len(unseen)]), select(rollout, rows[len(rows) - len(unseen) :])

    def _recompute(self, batch: TrainingBatch) -> list[Recomputed]:
        """Compute a few responses' numbers again, which `prepare` has just computed under the same weights."""
        probe = self._recomputation
        if probe is None:
            return []
        is_due = probe.is_due(self.step_number + 1)
        found = recompute_batch(probe, self.model, batch, self.environment) if is_due else []
        probe.after_step()
        return found

    def _probe(self, batch: TrainingBatch) -> dict[int, QuestionProbe]:
        """Probe this rank's questions, and merge the results of all ranks."""
        config = self.config
        found = probe_questions(
            self.learner,
            batch,
            optimiser=config.probe_optimiser,
            multipliers=MULTIPLIERS if config.probe_sweep else MULTIPLIERS[:1],
        )
        return {group: probe for shard in self.ranks.gather(found) for group, probe in shard.items()}

    def _means(self, updates: list[dict[str, float]]) -> dict[str, float]:
        """Average the metrics of updates over updates and ranks."""
        means = {name: sum(update[name] for update in updates) / len(updates) for name in updates[0]}
        total = self.ranks.sum(torch.tensor(list(means.values()), dtype=torch.float64)) / self.ranks.size
        return dict(zip(means, total.tolist(), strict=True))

    @torch.no_grad()
    def _check_probabilities(self, batch: TrainingBatch) -> None:
        """Raise an error where the weights give no finite probabilities."""
        if not self.model.logits(self.model.hidden_states(batch.tokens[:1])[:, -1]).isfinite().all():
            raise DivergenceError(
                f"logits must be finite, got NaN or Inf after the updates of step {self.step_number}: the weights are "
                "lost; lower --lr, or go on from an older checkpoint with --resume"
            )
