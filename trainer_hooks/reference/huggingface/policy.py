"""A causal language model from the local disk as a policy, checked when it is loaded."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainer_hooks.reference.config_fields import Precision
from trainer_hooks.reference.huggingface.decoders import decoder_for
from trainer_hooks.reference.huggingface.rollout import play
from trainer_hooks.reference.protocols import Environment, Episode, Policy, Rollout

__all__ = ["HuggingFacePolicy", "load_tokenizer"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")

_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 6e-2}
"""Largest difference of logits that are computed in two ways, as a share of the largest logit."""


class HuggingFacePolicy(Policy):
    """A model's hidden states, logits and cached sampling.

    Tokens and responses are on the CPU; the weights may be on any device.

    Args:
        model: A causal language model of transformers.
        context: Most tokens of a response, with its prompt.

    Raises:
        ValueError: If the model has fewer positions, or cannot be decoded row by row with a cache of keys and values.
    """

    def __init__(self, model: Any, context: int) -> None:
        super().__init__()
        positions = getattr(model.config, "max_position_embeddings", None)
        if positions is not None and context > positions:
            raise ValueError(f"context must not be above the model's {positions} positions, got {context}")
        window = getattr(model.config, "sliding_window", None)
        if window is not None and context > window:
            raise ValueError(f"context must not be above the window of the model's attention, {window}, got {context}")
        self.model = model
        self.context = context
        # The tuple keeps torch from registering the layer as a submodule a second time.
        self._head = (model.get_output_embeddings(),)
        self._scale = getattr(model.config, "logit_scale", 1.0) / getattr(model.config, "logits_scaling", 1.0)
        self._cap = getattr(model.config, "final_logit_softcapping", None)
        _check(self)

    @classmethod
    def load(cls, path: Path, *, context: int, precision: Precision = "float32") -> "HuggingFacePolicy":
        """Load a model from the local disk onto the CPU; nothing is downloaded.

        Args:
            path: A folder in Hugging Face's form, or a GGUF file, whose weights are dequantised.
            context: Most tokens of a response, with its prompt.
            precision: The type of the weights.

        Raises:
            ValueError: If there is no such model, or it cannot be sampled from; the message has the reason.
        """
        folder, options = _source(path)
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                folder, dtype=getattr(torch, precision), local_files_only=True, **options
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise ValueError(f"{path} must hold a causal language model in Hugging Face's form: {error}") from error
        return cls(model.eval(), context)

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary."""
        return int(self._head[0].weight.shape[0])

    def hidden_states(self, tokens: Tensor) -> Tensor:
        """Return the last hidden state after each token: ``(B, T)`` to ``(B, T, width)``, where the weights are."""
        out: Tensor = self.model.base_model(input_ids=tokens.to(self.model.device), use_cache=False).last_hidden_state
        return out

    def logits(self, hidden: Tensor) -> Tensor:
        """Map hidden states ``(..., width)`` to next-token logits ``(..., V)``."""
        out: Tensor = self._head[0](hidden)
        out = out if self._scale == 1.0 else out * self._scale
        return out if self._cap is None else self._cap * torch.tanh(out / self._cap)

    @torch.no_grad()
    def sample(
        self,
        environment: Environment,
        episodes: Sequence[Episode],
        *,
        generator: torch.Generator,
        temperature: float = 1.0,
        top_p: float = 1.0,
    ) -> Rollout:
        """Sample every episode to its end by turns; the tool is called in batches."""
        decoder = decoder_for(self.model, self.context)
        return play(
            self,
            decoder,
            environment,
            episodes,
            context=self.context,
            generator=generator,
            temperature=temperature,
            top_p=top_p,
        )


def load_tokenizer(path: Path) -> Any:
    """Load the tokenizer that lies beside a model, or in its GGUF file.

    Raises:
        ValueError: If there is none, or it has no token that ends a text.
    """
    folder, options = _source(path)
    # Without these files transformers makes an empty tokenizer, which does not split text as in the model's training.
    if not options and not any((folder / name).exists() for name in _TOKENIZER_FILES):
        raise ValueError(
            f"{path} must hold a tokenizer beside the model ({', '.join(_TOKENIZER_FILES)}): copy it from where the "
            "model comes from"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ValueError(f"{path} must hold a tokenizer that transformers can load: {error}") from error
    if tokenizer.eos_token_id is None:
        raise ValueError(f"the tokenizer in {path} must have an end-of-text token: set eos_token in its config")
    return tokenizer


def _source(path: Path) -> tuple[Path, dict[str, str]]:
    """Return the folder that transformers reads, and the option that names the GGUF file in it.

    Raises:
        ValueError: If there is nothing; transformers would take the path for a name to download.
    """
    if not path.exists():
        raise ValueError(f"{path} must be a folder with a model, or a GGUF file; there is nothing at that path")
    return (path.parent, {"gguf_file": path.name}) if path.suffix == ".gguf" else (path, {})


@contextmanager
def _full_precision() -> Iterator[None]:
    """Compute products of float32 matrices in float32, so that rounding hides no difference of two computations."""
    chosen = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(chosen)


@torch.no_grad()
@_full_precision()
def _check(policy: HuggingFacePolicy) -> None:
    """Compare our logits, at once and row by row with a cache, with those of the model's own forward pass."""
    model = policy.model
    length = min(12, policy.context)
    vocabulary = model.get_input_embeddings().num_embeddings
    # Two rows of arbitrary tokens, made without a random generator so that no generator's state changes.
    tokens = (torch.arange(2 * length).view(2, length) * 7919 + 1) % vocabulary
    own = model(input_ids=tokens.to(model.device), use_cache=False).logits
    try:
        at_once = policy.logits(policy.hidden_states(tokens))
        by_row = _decode_in_pieces(policy, tokens)
    except Exception as error:
        raise ValueError(
            f"{type(model).__name__} cannot be decoded row by row with a cache of keys and values: {error}"
        ) from error
    most = _TOLERANCE.get(model.dtype, 1e-3) * own.abs().max().clamp(min=1e-6)
    for name, found, wanted in (("output layer", at_once, own), ("cached decoding", by_row, own[:, -1])):
        off = (found.float() - wanted.float()).abs().max()
        if not off <= most:
            raise ValueError(
                f"the {name} of {type(model).__name__} must give the logits of its forward, got {off:.2g} off (most "
                f"{most:.2g}): this architecture is not supported"
            )


def _decode_in_pieces(policy: HuggingFacePolicy, tokens: Tensor) -> Tensor:
    """Compute the last logits of each of two rows, fed in pieces of different lengths."""
    model = policy.model
    decoder = decoder_for(model, policy.context)
    last = torch.zeros(0)
    half = tokens.shape[1] // 2
    pieces = [(0, half, 0, 1), (half, half, 1, 1 + half), (half, tokens.shape[1], 1 + half, tokens.shape[1])]
    for first, first_end, second, second_end in pieces:
        counts = [first_end - first, second_end - second]
        chunk = torch.zeros(2, max(counts), dtype=torch.long)
        chunk[0, : counts[0]] = tokens[0, first:first_end]
        chunk[1, : counts[1]] = tokens[1, second:second_end]
        hidden = decoder.feed(chunk.to(model.device), counts)
        last = hidden[torch.arange(2), torch.tensor(counts) - 1]
    return policy.logits(last)
