"""Spectral entropy of query-key products: how many directions each attention head still uses. Reads weights alone."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["Heads", "heads_of", "spectral_entropies"]


@dataclass(frozen=True)
class Heads:
    """The query and key projections of one attention module.

    Attributes:
        query: Weight ``(heads · d, hidden)``.
        key: Weight ``(key-value heads · d, hidden)``; several query heads may share a key head.
        size: d, the size of a head.
    """

    query: Tensor
    key: Tensor
    size: int

    def split(self) -> tuple[Tensor, Tensor]:
        """Give W_q and W_k of each query head, shape ``(heads, d, hidden)`` each, at full precision."""
        # Metal knows no float64.
        dtype = torch.float32 if self.query.device.type == "mps" else torch.float64
        query = self.query.detach().to(dtype).view(-1, self.size, self.query.shape[1])
        key = self.key.detach().to(dtype).view(-1, self.size, self.key.shape[1])
        return query, key.repeat_interleave(len(query) // len(key), dim=0)


def heads_of(model: nn.Module) -> Iterator[Heads]:
    """Find the attention modules of a Hugging Face model: those with ``q_proj``, ``k_proj`` and ``head_dim``.

    Fused projections, those that also hold a gate (Qwen3-Next, Qwen3.5), adapters (LoRA), quantised and sharded weights
    are not looked at: what is there would not be the matrix that the head multiplies with.
    """
    for module in model.modules():
        size, count = getattr(module, "head_dim", None), _head_count(module)
        query, key = _weight(module, "q_proj"), _weight(module, "k_proj")
        if isinstance(size, int) and query is not None and key is not None and len(query) == count * size:
            yield Heads(query, key, size)


def spectral_entropies(query: Tensor, key: Tensor) -> Tensor:
    """Give the spectral entropy of each head's bilinear form B = W_qᵀ W_k, nats.

    H = −Σ p_i ln p_i with p_i = σ_i² / Σ σ_j², σ the singular values of B: ln d where all d directions count alike, 0
    where one direction is all. A query and a key at the same position meet in x_qᵀ B x_k; rotary embeddings turn B
    with the distance, biases and norms of queries and keys are not in it.

    The singular values of B are those of S Wk with S the square root of W_q W_qᵀ, so that nothing of the size of the
    hidden state squared is ever made.

    Args:
        query: W_q of each head, shape ``(heads, r, hidden)``.
        key: W_k of each head, shape ``(heads, r, hidden)``.

    Returns:
        Shape ``(heads,)``; NaN where B is 0 or not finite.

    Reference:
        Mechanism-Driven Monitors, arXiv 2606.28116.
    """
    gram_query, gram_key = query @ query.mT, key @ key.mT
    is_finite = (gram_query.isfinite() & gram_key.isfinite()).flatten(1).all(dim=1)
    # A decomposition of NaN raises.
    usable = is_finite[:, None, None]
    gram_query, gram_key = torch.where(usable, gram_query, 0.0), torch.where(usable, gram_key, 0.0)
    values, vectors = torch.linalg.eigh(gram_query)
    root = (vectors * values.clamp(min=0).sqrt()[:, None, :]) @ vectors.mT
    energies = torch.linalg.eigvalsh(root @ gram_key @ root).clamp(min=0)
    shares = energies / energies.sum(dim=1, keepdim=True)
    return -torch.xlogy(shares, shares).sum(dim=1)


def _head_count(module: nn.Module) -> int:
    """Give the number of query heads, by the module or its configuration; 0 where neither says."""
    for owner in (module, getattr(module, "config", None)):
        for name in ("num_heads", "num_attention_heads"):
            count = getattr(owner, name, None)
            if isinstance(count, int):
                return count
    return 0


def _weight(module: nn.Module, name: str) -> Tensor | None:
    projection = getattr(module, name, None)
    weight = getattr(projection, "weight", None)
    # An adapter's projection still shows the frozen weight that it adapts.
    if not isinstance(weight, Tensor) or hasattr(projection, "base_layer") or hasattr(weight, "full_tensor"):
        return None
    return weight if weight.ndim == 2 and weight.is_floating_point() else None  # noqa: PLR2004 - a matrix
