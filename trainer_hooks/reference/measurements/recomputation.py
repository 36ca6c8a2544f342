"""Computes the numbers of a few responses of a training batch again, from the policy's logits alone."""

from typing import cast

import torch
from torch import Tensor

from trainer_hooks.probes.expected_mask import TurnGrammar
from trainer_hooks.probes.recomputation import RecomputationProbe, ReportedResponses
from trainer_hooks.probes.recomputed import Recomputed
from trainer_hooks.reference.protocols import Environment, Policy
from trainer_hooks.reference.updates.batch import TrainingBatch

__all__ = ["recompute_batch"]


def recompute_batch(
    probe: RecomputationProbe, policy: Policy, batch: TrainingBatch, environment: Environment
) -> list[Recomputed]:
    """Compare a batch that was just prepared with the weights that it was prepared under.

    The trainer computes at temperature 1, whatever it samples at. The mask is compared where the environment has a
    grammar of its turns.

    Args:
        probe: Chooses the responses and computes.
        policy: The policy, not updated since the batch was prepared.
        batch: The batch, before its first update.
        environment: The environment of its episodes.
    """
    lengths = torch.tensor([len(episode.prompt) for episode in batch.episodes])

    def forward(tokens: Tensor, _: Tensor) -> Tensor:
        return policy.logits(policy.hidden_states(tokens))

    return probe.recompute(
        policy,
        ReportedResponses(
            tokens=batch.tokens,
            mask=batch.mask,
            logprobs=batch.logprobs,
            entropies=batch.entropies,
            prompt_lengths=lengths,
            grammar=cast("TurnGrammar | None", getattr(environment, "turn_grammar", None)),
        ),
        forward=forward,
    )
