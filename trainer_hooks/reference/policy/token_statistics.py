"""Log-probabilities and entropies of a policy at action tokens."""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - torch's own idiom
from torch.utils.checkpoint import checkpoint

from trainer_hooks.reference.protocols import Policy

__all__ = ["token_statistics"]

MOST_LOGITS = 2**26
"""Logits held at a time, 256 MiB of float32; the built-in vocabulary never comes near."""


def token_statistics(model: Policy, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ln π(token | all before it) and the entropy of π(· | all before it), for action tokens.

    Only positions in the mask are projected to the vocabulary, and nothing after the last of them is read, so feedback
    costs no logits and padding costs nothing. Many positions are projected in parts, and again in the backward
    pass. Both are float32 whatever the weights are.

    Args:
        model: The policy, on any device.
        tokens: Token ids, shape ``(B, T)``.
        mask: True on action tokens, shape ``(B, T)``; never on the first token, which nothing predicts.

    Returns:
        Log-probabilities and entropies, each ``(B, T)``, nats, where the tokens are; 0 outside the mask.
    """
    empty = torch.zeros(mask.shape, device=tokens.device)
    # Models cannot be run on no responses, which is a rank's share where there are fewer of them than ranks.
    if not len(tokens):
        return empty, empty
    rows, columns = mask.nonzero(as_tuple=True)
    hidden = model.hidden_states(tokens[:, : columns.max() if len(columns) else 1])
    before = hidden[rows.to(hidden.device), columns.to(hidden.device) - 1]
    following = tokens[rows, columns].to(hidden.device)
    parts = -(-len(rows) * model.vocabulary // MOST_LOGITS)
    if parts <= 1:
        chosen, entropy = _statistics(model, before, following)
    else:
        found = [
            checkpoint(_statistics, model, *part, use_reentrant=False)
            for part in zip(before.chunk(parts), following.chunk(parts), strict=True)
        ]
        chosen, entropy = (torch.cat(both) for both in zip(*found, strict=True))
    chosen, entropy = chosen.to(tokens.device), entropy.to(tokens.device)
    return empty.index_put((rows, columns), chosen), empty.index_put((rows, columns), entropy)


def _statistics(model: Policy, before: Tensor, following: Tensor) -> tuple[Tensor, Tensor]:
    """Compute ln π(following) and the entropy after each of the hidden states, ``(N, width)``."""
    log_pi = F.log_softmax(model.logits(before).float(), dim=-1)
    return log_pi.gather(1, following[:, None])[:, 0], -(log_pi.exp() * log_pi).sum(dim=-1)
