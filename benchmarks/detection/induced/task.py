"""The task of suite D: put six letters into alphabetical order. A tiny model, its warm start, its true quality."""

import string
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

__all__ = ["BLANK", "END", "LETTERS", "Problems", "places_right", "quality", "shifted", "tokenizer", "warm_model"]

LETTERS = 6  # of a problem
MAX_STARTED_STEPS, STARTED_BATCH, STARTED_RATE = 3000, 64, 1e-3
WORDS = ["<pad>", "<eos>", "<blank>", "=", *string.ascii_lowercase[:20]]
END, BLANK, EQUALS, FIRST_LETTER = 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Problems:
    """Problems as token ids: ``prompts`` ``(N, 7)``, letters and an equals sign; ``answers`` ``(N, 7)``, ended."""

    prompts: NDArray[np.int64]
    answers: NDArray[np.int64]

    @classmethod
    def drawn(cls, count: int, random: np.random.Generator) -> "Problems":
        """Draw problems of distinct letters."""
        letters = np.stack([random.permutation(len(WORDS) - FIRST_LETTER)[:LETTERS] for _ in range(count)])
        ordered = np.sort(letters, axis=1)
        columns = np.full((count, 1), EQUALS), np.full((count, 1), END)
        return cls(
            *(np.hstack([part + FIRST_LETTER, end]) for part, end in zip((letters, ordered), columns, strict=True))
        )

    def texts(self) -> list[str]:
        """Return the prompts as texts."""
        return [" ".join(WORDS[token] for token in row) for row in self.prompts]


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token for each letter."""
    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token=WORDS[BLANK]))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        pad_token=WORDS[0],
        eos_token=WORDS[END],
        unk_token=WORDS[BLANK],
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )


def shifted(letters: Tensor) -> Tensor:
    """Return the token ids of letters from a tokenizer whose vocabulary is shifted by one letter."""
    return (letters - FIRST_LETTER + 1) % (len(WORDS) - FIRST_LETTER) + FIRST_LETTER


def warm_model(seed: int, target: float, held_out: Problems) -> Qwen2ForCausalLM:
    """Return a model trained on answers until its quality reaches a target, as a pretrained model would start.

    Raises:
        RuntimeError: If it does not reach the target.
    """
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(WORDS),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=32,
            pad_token_id=0,
            eos_token_id=END,
            bos_token_id=None,
        )
    )
    random = np.random.default_rng([seed, 1])
    optimiser = torch.optim.AdamW(model.parameters(), lr=STARTED_RATE)
    for step in range(MAX_STARTED_STEPS):
        batch = Problems.drawn(STARTED_BATCH, random)
        loss = -_answer_logprobs(model, batch).mean()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if step % 5 == 0 and quality(model, held_out) >= target:
            return model
    raise RuntimeError(f"the warm start must reach a quality of {target}, got {quality(model, held_out):.3f}")


@torch.no_grad()
def quality(model: Qwen2ForCausalLM, held_out: Problems) -> float:
    """Return the mean probability of the right answer at temperature 1: exact, without sampling noise."""
    return float(_answer_logprobs(model, held_out).sum(dim=1).exp().mean())


def places_right(completions: list[list[int]], answers: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of the tokens of each answer that stand at their place, in [0, 1]; 1 is a right answer."""
    shares = [
        sum(given == right for given, right in zip(tokens, answer, strict=False)) / len(answer)
        for tokens, answer in zip(completions, answers.tolist(), strict=True)
    ]
    return np.array(shares)


def _answer_logprobs(model: Qwen2ForCausalLM, problems: Problems) -> Tensor:
    prompts, answers = torch.from_numpy(problems.prompts), torch.from_numpy(problems.answers)
    logits = model(input_ids=torch.cat([prompts, answers], dim=1)).logits[:, prompts.shape[1] - 1 : -1]
    found: Tensor = logits.log_softmax(dim=-1).gather(2, answers.unsqueeze(2)).squeeze(2)
    return found
