"""The built-in policy: a small decoder-only transformer with a key-value cache.

One part is unusual: each position also sees the embeddings of the two tokens before it, through linear maps. With
them one attention layer can find two given words and copy what follows, which is learned in some hundred supervised
steps instead of tens of thousands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own idiom

from trainer_hooks.reference.policy.rollout import sample
from trainer_hooks.reference.protocols import Environment, Episode, Policy, Rollout

__all__ = ["Cache", "ModelShape", "PolicyModel"]


@dataclass(frozen=True)
class ModelShape:
    """Size of the model."""

    vocabulary: int
    positions: int
    width: int = 64
    layers: int = 2
    heads: int = 4


class Cache:
    """Keys, values and the last two embeddings of a batch that is decoded one token at a time."""

    def __init__(self, shape: ModelShape, batch: int, device: torch.device | None = None) -> None:
        size = (batch, shape.heads, shape.positions, shape.width // shape.heads)
        self.keys = [torch.zeros(size, device=device) for _ in range(shape.layers)]
        self.values = [torch.zeros(size, device=device) for _ in range(shape.layers)]
        self.previous = torch.zeros(batch, 2, shape.width, device=device)
        self.length = 0

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put a layer's keys and values of one token, ``(B, heads, 1, d)``, in place; return all so far."""
        end = self.length + 1
        self.keys[layer][:, :, self.length : end] = keys
        self.values[layer][:, :, self.length : end] = values
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def keep(self, rows: Tensor) -> None:
        """Drop all rows except these, so that finished responses need no more computation."""
        self.keys = [keys[rows] for keys in self.keys]
        self.values = [values[rows] for values in self.values]
        self.previous = self.previous[rows]


class Block(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm_attention = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.norm_forward = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, 4 * shape.width)
        self.down = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: Tensor, cache: Cache | None = None, layer: int = 0) -> Tensor:
        """Map ``(B, T, width)`` to the same; with a cache, T = 1 new token attends to all that is cached."""
        batch, length, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        if cache is None:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            keys, values = cache.write(layer, key, value)
            # For one query a head, two plain products are faster than a kernel that is made for many queries.
            scores = query @ keys.transpose(2, 3) * key.shape[3] ** -0.5
            mixed = torch.softmax(scores, dim=-1) @ values
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        fed: Tensor = self.down(F.gelu(self.up(self.norm_forward(x))))
        return x + fed


class PolicyModel(Policy):
    """The policy: embeddings with two taps into the past, blocks, output tied to the embeddings."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.position = nn.Embedding(shape.positions, shape.width)
        self.taps = nn.ModuleList(nn.Linear(shape.width, shape.width, bias=False) for _ in range(2))
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        nn.init.normal_(self.embed.weight, std=shape.width**-0.5)
        nn.init.normal_(self.position.weight, std=0.02)

    @property
    def vocabulary(self) -> int:
        """Number of tokens that it chooses from."""
        return self.shape.vocabulary

    def hidden_states(self, tokens: Tensor) -> Tensor:
        """Return the last hidden state after each token: ``(B, T)`` to ``(B, T, width)``."""
        embedded = self.embed(tokens)
        x = embedded + self.position.weight[: tokens.shape[1]]
        for back, tap in enumerate(self.taps, start=1):
            x = x + tap(F.pad(embedded, (0, 0, back, 0))[:, : tokens.shape[1]])
        for block in self.blocks:
            x = block(x)
        normed: Tensor = self.norm(x)
        return normed

    def logits(self, hidden: Tensor) -> Tensor:
        """Map hidden states ``(..., width)`` to next-token logits ``(..., V)``."""
        return hidden @ self.embed.weight.T

    @property
    def context(self) -> int:
        """Positions, prompt and feedback included."""
        return self.shape.positions

    def sample(
        self,
        environment: Environment,
        episodes: Sequence[Episode],
        *,
        generator: torch.Generator,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> Rollout:
        """Play every episode to its end, all rows one position at a time."""
        return sample(self, environment, episodes, generator=generator, temperature=temperature, top_p=top_p)

    def empty_cache(self, batch: int) -> Cache:
        """Return a cache for so many rows."""
        return Cache(self.shape, batch, self.embed.weight.device)

    def next_logits(self, tokens: Tensor, cache: Cache) -> Tensor:
        """Feed one token a row, ``(B,)``, and give the logits of the next, ``(B, V)``; the cache moves on."""
        embedded = self.embed(tokens.to(self.embed.weight.device))
        x = embedded + self.position.weight[cache.length]
        for back, tap in enumerate(self.taps, start=1):
            x = x + tap(cache.previous[:, -back])
        x = x[:, None]
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)
        cache.previous = torch.stack((cache.previous[:, 1], embedded), dim=1)
        cache.length += 1
        return self.logits(self.norm(x[:, 0]))
