"""Cached decoding of a Hugging Face model: a fast forward pass for the Llama family, the model's own for others."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from trainer_hooks.reference.huggingface.cache import RowCache
from trainer_hooks.reference.huggingface.llama import LlamaDecoder, is_llama

__all__ = ["Decoder", "ModelDecoder", "decoder_for"]


class Decoder(Protocol):
    """Maps the next tokens of each row to hidden states, and caches the earlier tokens."""

    cache: RowCache

    def feed(self, tokens: Tensor, counts: Sequence[int]) -> Tensor:
        """Feed so many of the padded tokens ``(b, C)`` of each row; give hidden states ``(b, C, d)``."""
        ...


def decoder_for(model: Any, context: int) -> Decoder:
    """Build a decoder of the model for rows of this many positions."""
    cache = RowCache(context, model.device, model.dtype)
    return LlamaDecoder(model, cache) if is_llama(model.config) else ModelDecoder(model, cache)


class ModelDecoder:
    """The model's own forward pass, with a cache in which rows have different lengths."""

    def __init__(self, model: Any, cache: RowCache) -> None:
        self.cache = cache
        self._base = model.base_model
        self._layers = Cache(layers=[_Layer(cache, number) for number in range(model.config.num_hidden_layers)])

    def feed(self, tokens: Tensor, counts: Sequence[int]) -> Tensor:
        """Feed the next tokens of each row; give their hidden states, ``(b, C, d)``."""
        self.cache.advance(counts, tokens.shape[1])
        mask = self.cache.mask
        if mask is None:
            # Without a mask the model would make one that takes all rows to have the same length.
            mask = torch.zeros(len(tokens), 1, 1, self.cache.longest, dtype=self._base.dtype, device=tokens.device)
        out: Tensor = self._base(
            input_ids=tokens,
            position_ids=self.cache.positions.clamp(max=self.cache.context - 1),
            attention_mask=mask,
            past_key_values=self._layers,
            use_cache=True,
        ).last_hidden_state
        return out


class _Layer(CacheLayerMixin):  # type: ignore[no-untyped-call]
    """One layer of a `RowCache`, with the interface that transformers requires."""

    is_compileable = False

    def __init__(self, cache: RowCache, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._cache = cache
        self._number = number

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Do nothing: buffers are made at the first write."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write ``(b, heads, C, d)`` keys and values, and give all."""
        keys, values = self._cache.write(self._number, key_states.transpose(1, 2), value_states.transpose(1, 2))
        by_head = key_states.shape[:2]
        return keys.view(*by_head, *keys.shape[1:]).transpose(2, 3), values.view(*by_head, *values.shape[1:])

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002 - fixed by transformers
        """Return the number of cached positions and where they begin."""
        return self._cache.longest, 0

    def get_seq_length(self) -> int:
        """Return the number of positions that the longest row has."""
        return self._cache.longest

    def get_max_length(self) -> int:
        """Return the most positions that a row can have."""
        return self._cache.context
