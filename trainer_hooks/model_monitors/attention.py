"""Spectral entropy of query-key products: how many directions each attention head uses. Reads weights alone."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

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
        """Return W_q and W_k of each query head, shape ``(heads, d, hidden)`` each, at full precision."""
        # Metal has no float64.
        dtype = torch.float32 if self.query.device.type == "mps" else torch.float64
        query = self.query.detach().to(dtype).view(-1, self.size, self.query.shape[1])
        key = self.key.detach().to(dtype).view(-1, self.size, self.key.shape[1])
        return query, key.repeat_interleave(len(query) // len(key), dim=0)


def heads_of(model: nn.Module) -> Iterator[Heads]:
    """Find the attention modules of a Hugging Face model: those with ``q_proj``, ``k_proj`` and ``head_dim``.

    Fused projections, projections that also hold a gate (Qwen3-Next, Qwen3.5), adapters (LoRA), quantised weights and
    sharded weights are skipped, because the stored matrix is not the one that the head multiplies with. Parametrised
    weights are skipped too: to read one computes it, which may change the training (`spectral_norm` iterates).
    """
    for module in model.modules():
        size, count = getattr(module, "head_dim", None), _head_count(module)
        query, key = _weight(module, "q_proj"), _weight(module, "k_proj")
        if isinstance(size, int) and query is not None and key is not None and len(query) == count * size:
            yield Heads(query, key, size)


def spectral_entropies(query: Tensor, key: Tensor) -> Tensor:
    """Compute the spectral entropy of each head's bilinear form B = W_qᵀ W_k, nats.

    H = −Σ p_i ln p_i with p_i = σ_i² / Σ σ_j², where σ are the singular values of B. H is ln d where all d directions
    have equal weight, and 0 where a single direction has all the weight. The score of a query and a key at the same
    position is x_qᵀ B x_k.
    Rotary embeddings, which rotate B with the distance, and biases and norms of queries and keys are not included.

    The singular values of B equal those of S W_k, where S is the square root of W_q W_qᵀ. Therefore no matrix of shape
    ``(hidden, hidden)`` is computed.

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
    # A decomposition of NaN would raise.
    usable = is_finite[:, None, None]
    gram_query, gram_key = torch.where(usable, gram_query, 0.0), torch.where(usable, gram_key, 0.0)
    values, vectors = torch.linalg.eigh(gram_query)
    root = (vectors * values.clamp(min=0).sqrt()[:, None, :]) @ vectors.mT
    energies = torch.linalg.eigvalsh(root @ gram_key @ root).clamp(min=0)
    shares = energies / energies.sum(dim=1, keepdim=True)
    return -torch.xlogy(shares, shares).sum(dim=1)


def _head_count(module: nn.Module) -> int:
    """Return the number of query heads, from the module or its configuration; 0 where neither has it."""
    for owner in (module, getattr(module, "config", None)):
        for name in ("num_heads", "num_attention_heads"):
            count = getattr(owner, name, None)
            if isinstance(count, int):
                return count
    return 0


def _weight(module: nn.Module, name: str) -> Tensor | None:
    projection = getattr(module, name, None)
    if isinstance(projection, nn.Module) and is_parametrized(projection, "weight"):
        return None
    weight = getattr(projection, "weight", None)
    # The weight of an adapter's projection is the frozen one that it adapts.
    if not isinstance(weight, Tensor) or hasattr(projection, "base_layer") or hasattr(weight, "full_tensor"):
        return None
    return weight if weight.ndim == 2 and weight.is_floating_point() else None  # noqa: PLR2004 - a matrix
