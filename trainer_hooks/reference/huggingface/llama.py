"""Cached decoding of the Llama family: the same weights and arithmetic as the model's own forward, in fewer calls.

With models small enough for a laptop, most of the time of a decoding step of `transformers` is spent in Python and not
in the arithmetic.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - torch's own idiom

from trainer_hooks.reference.huggingface.cache import RowCache

__all__ = ["LlamaDecoder", "is_llama"]

_LLAMAS = {"llama", "mistral", "qwen2", "qwen3"}
"""Architectures with the same forward pass: RMS norms, rotary positions, grouped heads, a gated feed-forward layer."""

_FEW_QUERIES = 32
"""Up to this many queries a head, two plain products are faster than a fused kernel, which is made for many queries."""


def is_llama(config: Any) -> bool:
    """Return whether a model of this configuration has the forward pass of this module."""
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    is_rope_fixed = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default") == "default"
    is_silu = getattr(config, "hidden_act", "silu") == "silu"
    is_windowed = config.model_type == "mistral" and config.sliding_window is not None
    is_full = layers == {"full_attention"} and not is_windowed
    return config.model_type in _LLAMAS and is_full and is_rope_fixed and is_silu


class LlamaDecoder:
    """The Llama family's forward, a chunk at a time."""

    def __init__(self, model: Any, cache: RowCache) -> None:
        base = model.base_model
        self.cache = cache
        self._embedding = base.embed_tokens.weight
        self._norm = _RmsNorm(base.norm)
        self._layers = [_LlamaLayer(layer) for layer in base.layers]
        positions = torch.arange(cache.context + 1, device=model.device)
        cosine, sine = base.rotary_emb(self._embedding, positions[None])
        self._cosine, self._sine = _rotations(cosine[0], sine[0], self._layers[0].queries)

    def feed(self, tokens: Tensor, counts: Sequence[int]) -> Tensor:
        """Feed the next tokens of each row; give their hidden states, ``(b, C, d)``."""
        cache = self.cache
        cache.advance(counts, tokens.shape[1])
        at = cache.positions.flatten()
        rotation = self._cosine.index_select(0, at), self._sine.index_select(0, at)
        # Rows and positions are one dimension except in attention, because a view costs as much as a small product.
        x = F.embedding(tokens.flatten(), self._embedding)
        for number, layer in enumerate(self._layers):
            x = layer(x, rotation, cache, number)
        return self._norm(x).view(*tokens.shape, -1)


class _LlamaLayer:
    """One layer. Its weights are looked up once, because a look-up in modules takes longer than a small product.

    The output of the first product is ordered by the heads of keys: each key head, the queries that share it, and its
    value are next to each other. So all of them are rotated in one operation, and none is copied.
    """

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._width = attention.head_dim
        self._heads = attention.k_proj.weight.shape[0] // self._width
        self.queries = attention.q_proj.weight.shape[0] // self._width // self._heads
        self._norms = _RmsNorm(layer.input_layernorm), _RmsNorm(layer.post_attention_layernorm)
        # One product instead of three, for a copy of the smallest weights of a layer.
        parts = attention.q_proj, attention.k_proj, attention.v_proj
        self._query_key_value = (
            self._by_head([part.weight for part in parts]),
            None if parts[0].bias is None else self._by_head([part.bias for part in parts]),
        )
        self._nothing = parts[0].weight.new_zeros(1, 1, 1)
        self._head_norm = _head_norm(attention, self.queries) if hasattr(attention, "q_norm") else None
        self._gate, self._up = ((part.weight, part.bias) for part in (mlp.gate_proj, mlp.up_proj))
        self._out, self._down = ((part.weight.t(), part.bias) for part in (attention.o_proj, mlp.down_proj))

    def _by_head(self, parts: Sequence[Tensor]) -> Tensor:
        """Join weights or biases whose first dimension is heads times width, head of keys by head of keys."""
        return torch.cat([part.view(self._heads, -1, *part.shape[1:]) for part in parts], dim=1).flatten(0, 1)

    def __call__(self, x: Tensor, rotation: tuple[Tensor, Tensor], cache: RowCache, number: int) -> Tensor:
        x = _add_linear(x, self._attend(self._norms[0](x), rotation, cache, number), *self._out)
        h = self._norms[1](x)
        return _add_linear(x, F.silu(F.linear(h, *self._gate), inplace=True).mul_(F.linear(h, *self._up)), *self._down)

    def _attend(self, x: Tensor, rotation: tuple[Tensor, Tensor], cache: RowCache, number: int) -> Tensor:
        batch, length = cache.positions.shape
        parts = F.linear(x, *self._query_key_value).view(batch * length, self._heads, -1, self._width)
        if self._head_norm is not None:
            weights, epsilon = self._head_norm
            normed = torch.rms_norm(parts[:, :, :-1], (self._width,), eps=epsilon) * weights
            parts = torch.cat((normed, parts[:, :, -1:]), dim=2)
        cosine, sine = rotation
        parts = torch.addcmul(parts * cosine, parts.roll(self._width // 2, -1), sine)
        parts = parts.view(batch, length, self._heads, -1, self._width)
        query, key, value = parts.split_with_sizes((self.queries, 1, 1), 3)
        keys, values = cache.write(number, key.squeeze(3), value.squeeze(3))
        query = query.transpose(1, 2).reshape(batch * self._heads, -1, self._width)
        mixed = self._mix(query, keys, values, cache.mask)
        # On a GPU attention may return its result by position and not by head; then this copies it.
        return mixed.reshape(batch, self._heads, length, -1).transpose(1, 2).reshape(batch * length, -1)

    def _mix(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend: queries ``(b · heads, C · queries, d)`` to keys ``(b · heads, d, end)`` and their values."""
        if mask is not None:
            mask = mask.repeat_interleave(self.queries, dim=2)
        if query.shape[1] > _FEW_QUERIES:
            query, keys, values = (part.view(-1, self._heads, *part.shape[1:]) for part in (query, keys, values))
            mixed = F.scaled_dot_product_attention(query, keys.mT.contiguous(), values, attn_mask=mask)
            return mixed.flatten(0, 1)
        scores = torch.baddbmm(self._nothing, query, keys, beta=0, alpha=self._width**-0.5)
        if mask is not None:
            scores.view(len(mask), -1, *mask.shape[2:]).add_(mask)
        return torch.bmm(torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype), values)


class _RmsNorm:
    """x · w / √(mean x² + ε), as x · w √d / √(|x|² + d ε): half the calls of `torch.rms_norm` on a CPU."""

    def __init__(self, module: Any) -> None:
        weight, epsilon = module.weight, module.variance_epsilon
        self._fused = tuple(weight.shape), weight, epsilon
        root = weight.numel() ** 0.5
        self._weight = weight.float() * root
        self._floor = torch.tensor(root * epsilon**0.5, device=weight.device)

    def __call__(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            return torch.rms_norm(x, *self._fused)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        return (x / torch.hypot(length, self._floor)).mul_(self._weight).to(x.dtype)


def _add_linear(x: Tensor, h: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute x + h W + b, in one call where there is no b."""
    return torch.addmm(x if bias is None else x + bias, h, weight)


def _rotations(cosine: Tensor, sine: Tensor, queries: int) -> tuple[Tensor, Tensor]:
    """Return the rotations of a head's queries, key and value, ``(positions, 1, queries + 2, d)``.

    rotate_half(x) · sin = roll(x) · (−sin, sin): the sign goes into the table. A value is not rotated: 1 and 0.
    """
    half = cosine.shape[-1] // 2
    sine = torch.cat((-sine[:, :half], sine[:, half:]), dim=-1)
    cosine, sine = (table[:, None, None].repeat(1, 1, queries + 2, 1) for table in (cosine, sine))
    cosine[:, :, -1], sine[:, :, -1] = 1.0, 0.0
    return cosine, sine


def _head_norm(attention: Any, queries: int) -> tuple[Tensor, float]:
    """Return the weights of the norms of a head's queries and of its key, ``(queries + 1, d)``, and their epsilon."""
    weights = [attention.q_norm.weight] * queries + [attention.k_norm.weight]
    return torch.stack(weights), attention.q_norm.variance_epsilon
