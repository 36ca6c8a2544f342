"""The models of the examples, random ones of a few thousand weights, and a tokenizer of one token a character."""

import string

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import MixtralConfig, MixtralForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

WORDS = ["<pad>", "<eos>", "<unk>", *string.ascii_lowercase, *string.digits]


def model_and_tokenizer() -> tuple[Qwen2ForCausalLM, PreTrainedTokenizerFast]:
    """Build a random Qwen2 and its tokenizer."""
    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token=WORDS[2]))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    padding, end, unknown = WORDS[:3]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=padding,
        eos_token=end,
        unk_token=unknown,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
    )
    config = Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
    )
    return Qwen2ForCausalLM(config), tokenizer


def mixture_of_experts() -> MixtralForCausalLM:
    """Build a random Mixtral of the same size, with four experts of which each token uses two."""
    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            num_local_experts=4,
            num_experts_per_tok=2,
            max_position_embeddings=64,
            pad_token_id=0,
            eos_token_id=1,
        )
    )


def share_of_vowels(completions: list[str], **_: object) -> list[float]:
    """Reward vowels."""
    return [sum(word in "aeiou" for word in text.split()) / 12 for text in completions]


def prompts() -> Dataset:
    """Return sixteen prompts."""
    return Dataset.from_list([{"prompt": " ".join(word)} for word in ("abc", "de", "fghi", "k1")] * 4)
