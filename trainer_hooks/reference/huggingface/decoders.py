"""Cached decoding of a Hugging Face model: a lean forward for the Llama family, the model's own for the others.

At the size of a laptop's models most of a decoding step of `transformers` is the Python around the arithmetic. The lean
forward reads the same modules' weights and does the same arithmetic in a dozen calls a layer.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - torch's own idiom
from transformers.cache_utils import Cache, CacheLayerMixin

from trainer_hooks.reference.huggingface.cache import RowCache

__all__ = ["Decoder", "LlamaDecoder", "ModelDecoder", "decoder_for"]

_LLAMAS = {"llama", "mistral", "qwen2", "qwen3"}
"""Architectures of the same forward: RMS norms, rotary positions, grouped heads, a gated feed-forward."""

_FEW_QUERIES = 32
"""Up to so many queries a head, two plain products are faster than a fused kernel made for many."""


class Decoder(Protocol):
    """Maps the next tokens of each row to hidden states, and remembers what came before."""

    cache: RowCache

    def feed(self, tokens: Tensor, counts: Sequence[int]) -> Tensor:
        """Feed so many of the padded tokens ``(b, C)`` of each row; give hidden states ``(b, C, d)``."""
        ...


def decoder_for(model: Any, context: int) -> Decoder:
    """Give a fresh decoder of the model for rows of so many positions."""
    cache = RowCache(context, model.device)
    return LlamaDecoder(model, cache) if _is_lean(model.config) else ModelDecoder(model, cache)


def _is_lean(config: Any) -> bool:
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
        self._norm = _norm(base.norm)
        self._layers = [_LlamaLayer(layer) for layer in base.layers]
        positions = torch.arange(cache.context + 1, device=model.device)
        cosine, sine = base.rotary_emb(self._embedding, positions[None])
        # rotate_half(x) · sin = roll(x) · (−sin, sin): the sign goes into the table.
        half = cosine.shape[-1] // 2
        self._cosine = cosine[0, :, None]
        self._sine = torch.cat((-sine[0, :, None, :half], sine[0, :, None, half:]), dim=-1)

    def feed(self, tokens: Tensor, counts: Sequence[int]) -> Tensor:
        """Feed the next tokens of each row; give their hidden states, ``(b, C, d)``."""
        cache = self.cache
        cache.advance(counts, tokens.shape[1])
        at = cache.positions.flatten()
        rotation = self._cosine.index_select(0, at), self._sine.index_select(0, at)
        # Rows and positions are one dimension but where tokens attend: a view costs as much as a small product.
        x = F.embedding(tokens.flatten(), self._embedding)
        for number, layer in enumerate(self._layers):
            x = layer(x, rotation, cache, number)
        return torch.rms_norm(x, *self._norm).view(*tokens.shape, -1)


class _LlamaLayer:
    """One layer, its weights looked up once: finding them in modules takes longer than a small product."""

    def __init__(self, layer: Any) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self._head_width = attention.head_dim
        self._scale = attention.head_dim**-0.5
        self._norms = _norm(layer.input_layernorm), _norm(layer.post_attention_layernorm)
        self._head_norms = (_norm(attention.q_norm), _norm(attention.k_norm)) if hasattr(attention, "q_norm") else None
        # One product instead of three, for a copy of the smallest weights of a layer.
        parts = attention.q_proj, attention.k_proj, attention.v_proj
        query, key, value = (part.weight.shape[0] // self._head_width for part in parts)
        self._turned, self._heads = [query, key], [query + key, value]
        self._query_key_value = (
            torch.cat([part.weight for part in parts]),
            None if parts[0].bias is None else torch.cat([part.bias for part in parts]),
        )
        self._out, self._gate, self._up, self._down = (
            (part.weight, part.bias) for part in (attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        )

    def __call__(self, x: Tensor, rotation: tuple[Tensor, Tensor], cache: RowCache, number: int) -> Tensor:
        x = x + self._attend(torch.rms_norm(x, *self._norms[0]), rotation, cache, number)
        h = torch.rms_norm(x, *self._norms[1])
        return x + F.linear(F.silu(F.linear(h, *self._gate)).mul_(F.linear(h, *self._up)), *self._down)

    def _attend(self, x: Tensor, rotation: tuple[Tensor, Tensor], cache: RowCache, number: int) -> Tensor:
        batch, width = cache.positions.shape
        by_row = (batch, width, -1, self._head_width)
        projected = F.linear(x, *self._query_key_value).view(batch * width, -1, self._head_width)
        turned, value = projected.split_with_sizes(self._heads, dim=1)
        if self._head_norms is not None:
            query, key = turned.split_with_sizes(self._turned, dim=1)
            normed = torch.rms_norm(query, *self._head_norms[0]), torch.rms_norm(key, *self._head_norms[1])
            turned = torch.cat(normed, dim=1)
        cosine, sine = rotation
        turned = torch.addcmul(turned * cosine, turned.roll(self._head_width // 2, -1), sine)
        query, key = turned.split_with_sizes(self._turned, dim=1)
        keys, values = cache.write(number, key.view(by_row).transpose(1, 2), value.view(by_row).transpose(1, 2))
        # Query heads that share keys stand side by side as further queries: no copy of the keys is made.
        heads = keys.shape[1]
        query = query.reshape(batch, width, heads, -1, self._head_width).permute(0, 2, 3, 1, 4)
        mixed = self._mixed(query.flatten(2, 3), keys, values, cache.visible)
        mixed = mixed.view(batch, heads, -1, width, self._head_width).permute(0, 3, 1, 2, 4)
        return F.linear(mixed.reshape(batch * width, -1), *self._out)

    def _mixed(self, query: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None) -> Tensor:
        """Attend: queries ``(b, heads, groups · C, d)``, keys, values, to ``(b, heads, groups · C, d)``."""
        mask = None if visible is None else visible.repeat(1, 1, query.shape[2] // visible.shape[2], 1)
        if query.shape[2] > _FEW_QUERIES:
            return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        scores = (query * self._scale) @ keys.transpose(2, 3)
        if mask is not None:
            scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
        return torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype) @ values


class ModelDecoder:
    """The model's own forward, with a cache that lets each row stand at its own length."""

    def __init__(self, model: Any, cache: RowCache) -> None:
        self.cache = cache
        self._base = model.base_model
        self._layers = Cache(layers=[_Layer(cache, number) for number in range(model.config.num_hidden_layers)])

    def feed(self, tokens: Tensor, counts: Sequence[int]) -> Tensor:
        """Feed the next tokens of each row; give their hidden states, ``(b, C, d)``."""
        self.cache.advance(counts, tokens.shape[1])
        visible = self.cache.visible
        if visible is None:
            visible = torch.ones(len(tokens), 1, 1, self.cache.longest, dtype=torch.bool, device=tokens.device)
        dtype = self._base.dtype
        # A mask of numbers is what every implementation of attention takes.
        mask = torch.zeros_like(visible, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)
        out: Tensor = self._base(
            input_ids=tokens,
            position_ids=self.cache.positions.clamp(max=self.cache.context - 1),
            attention_mask=mask,
            past_key_values=self._layers,
            use_cache=True,
        ).last_hidden_state
        return out


class _Layer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer of a `RowCache`, as transformers asks for it."""

    is_compileable = False

    def __init__(self, cache: RowCache, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cache = cache
        self._number = number

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: buffers are made at the first write."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write ``(b, heads, C, d)`` keys and values, and give all."""
        return self._cache.write(self._number, key_states, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002 - fixed by transformers
        """Give the number of cached positions and where they begin."""
        return self._cache.longest, 0

    def get_seq_length(self) -> int:
        """Give the number of positions that the longest row has."""
        return self._cache.longest

    def get_max_length(self) -> int:
        """Give the most positions that a row can have."""
        return self._cache.context


def _norm(module: Any) -> tuple[tuple[int, ...], Tensor, float]:
    """Give the arguments of `torch.nn.functional.rms_norm`."""
    return tuple(module.weight.shape), module.weight, module.variance_epsilon
