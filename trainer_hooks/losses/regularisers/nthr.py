"""NTHR scales and GWHES (Theorem A.1, eq. 8 and 9): which tokens of incorrect responses lower correct ones.

Both compare the gradients that tokens send into the output layer. A token y after a prefix with last hidden state h
sends r hᵀ, with the prediction error r = e_y − π(·|prefix); two tokens act on each other by
⟨r, r'⟩ ⟨h, h'⟩ = α ⟨h, h'⟩. Summed over a set of tokens this is one matrix M = Σ r hᵀ, so the functions here need
memory for the vocabulary times the width, and not for all pairs of tokens. Errors are computed for a chunk of tokens at
a time, so logits in half precision are never copied whole. All functions take the responses of one group.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from trainer_hooks.losses.token_arrays import action_index, upcast

__all__ = ["gwhes", "nthr_scales"]

CHUNK_ELEMENTS = 2**24
"""Prediction errors held at a time: 64 MiB in float32, whatever the vocabulary."""


def nthr_scales(
    hidden: Tensor, logits: Tensor, tokens: Tensor, mask: Tensor, correct: Tensor, *, beta: float = 1.0
) -> Tensor:
    """Compute NTHR's factors, which reduce the negative advantage of the tokens that lower correct responses most.

    s⁻_{j,k'} = Σ_{i∈N⁺} Σ_k α⁻_{k,k'} ⟨h_{i,<k}, h_{j,<k'}⟩ for each token k' of an incorrect response j;
    τ = β · min_{i'∈N⁺} s̄⁺_{i'}, with s̄⁺_{i'} the same sum averaged over the tokens of a correct response i'.
    Where s⁻ > τ the factor is η = 2·|0.5 − p|, with p the share of correct responses; elsewhere it is 1.

    Args:
        hidden: Last hidden state of the prefix that predicts each token, shape ``(B, T, d)``.
        logits: Next-token logits after that prefix, shape ``(B, T, V)``.
        tokens: The tokens themselves, shape ``(B, T)``, integer.
        mask: True on action tokens, shape ``(B, T)``, bool.
        correct: Which responses of the group are correct, shape ``(B,)``, bool.
        beta: β of the threshold.

    Returns:
        Factors for the advantages, shape ``(B, T)``, in [0, 1]; all 1 where no response, or every one, is correct.

    Reference:
        "On the Effect of Negative Gradient in Group Relative Deep Reinforcement Optimization", section 4.
    """
    scales = _zeros(hidden, mask.shape) + 1
    if not correct.any() or correct.all():
        return scales
    pull = _pull(hidden, logits, tokens, mask & correct[:, None])
    influence = _influence(hidden, logits, tokens, mask, pull)
    lengths = mask.sum(dim=1)
    means = influence.sum(dim=1)[correct & (lengths > 0)] / lengths[correct & (lengths > 0)]
    if not len(means):
        return scales
    success = correct.double().mean().item()
    hurts = mask & ~correct[:, None] & (influence > beta * means.min())
    return scales.masked_fill(hurts, 2 * abs(0.5 - success))


def gwhes(hidden: Tensor, logits: Tensor, tokens: Tensor, mask: Tensor, correct: Tensor) -> Tensor:
    """Compute G_{i,t} for every action of every correct response (eq. 9): how much the group's update lowers it.

    G_{i,t} = p⁻ Σ_k Σ_{j∈N⁻} Σ_{t',k'} α⁻ ⟨h, h'⟩ − p⁺ Σ_k Σ_{i'∈N⁺} Σ_{t'',k''} α⁺ ⟨h, h''⟩,
    p⁺ = (1−p)/√(p(1−p)), p⁻ = p/√(p(1−p)). The larger, the less the action's likelihood grows; above 0 it falls.
    Where only the output layer is trained, by gradient ascent with rate η on Σ_i A_i ln π(y_i) over the group,
    d ln π(action) = −η G to first order, exactly.

    Args:
        hidden: Last hidden state of the prefix that predicts each token, shape ``(B, T, d)``.
        logits: Next-token logits after that prefix, shape ``(B, T, V)``.
        tokens: The tokens themselves, shape ``(B, T)``, integer.
        mask: True on action tokens, shape ``(B, T)``, bool.
        correct: Which responses of the group are correct, shape ``(B,)``, bool.

    Returns:
        G, shape ``(B, actions)`` with as many columns as the longest response has actions; NaN for incorrect
        responses and for actions that a response does not have; all NaN where the group is not mixed.
    """
    index = action_index(mask)
    columns = int(index.max()) + 1 if index.numel() else 0
    unknown = _zeros(hidden, (len(mask), columns)) + torch.nan
    if not correct.any() or correct.all():
        return unknown
    success = correct.double().mean().item()
    spread = (success * (1 - success)) ** 0.5
    pull = success / spread * _pull(hidden, logits, tokens, mask & ~correct[:, None])
    pull -= (1 - success) / spread * _pull(hidden, logits, tokens, mask & correct[:, None])
    influence = _influence(hidden, logits, tokens, mask & correct[:, None], pull)
    for action in range(columns):
        here = index == action
        known = correct & here.any(dim=1)
        unknown[known, action] = (influence * here).sum(dim=1)[known]
    return unknown


def _pull(hidden: Tensor, logits: Tensor, tokens: Tensor, where: Tensor) -> Tensor:
    """Sum r hᵀ over the tokens where ``where`` is True, shape ``(V, d)``: their gradient in the output layer."""
    pull = _zeros(hidden, (logits.shape[-1], hidden.shape[-1]))
    # Inside autocast the product would be computed in half precision.
    with torch.autocast(hidden.device.type, enabled=False):
        for places in _chunks(where, logits.shape[-1]):
            pull += _errors(logits[places], tokens[places]).T @ upcast(hidden[places]).detach()
    return pull


def _influence(hidden: Tensor, logits: Tensor, tokens: Tensor, where: Tensor, pull: Tensor) -> Tensor:
    """Compute rᵀ M h at the tokens where ``where`` is True, and 0 elsewhere, shape ``(B, T)``."""
    influence = _zeros(hidden, where.shape)
    with torch.autocast(hidden.device.type, enabled=False):
        for places in _chunks(where, logits.shape[-1]):
            states = upcast(hidden[places]).detach()
            influence[places] = ((_errors(logits[places], tokens[places]) @ pull) * states).sum(dim=-1)
    return influence


def _chunks(where: Tensor, vocabulary: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows and columns of True in chunks whose prediction errors fit into `CHUNK_ELEMENTS`."""
    rows, columns = where.nonzero(as_tuple=True)
    size = max(1, CHUNK_ELEMENTS // vocabulary)
    yield from zip(torch.split(rows, size), torch.split(columns, size), strict=True)


def _errors(logits: Tensor, tokens: Tensor) -> Tensor:
    """Compute the prediction errors r = e_y − π of n tokens, shape ``(n, V)``."""
    errors = -upcast(logits).detach().softmax(dim=-1)
    return errors.scatter_add_(1, tokens[:, None], torch.ones_like(errors[:, :1]))


def _zeros(hidden: Tensor, shape: Sequence[int]) -> Tensor:
    """Make zeros on the device of the hidden states, in float32 or wider."""
    return hidden.new_zeros(shape, dtype=torch.promote_types(hidden.dtype, torch.float32))
