"""Cached decoding of many architectures, row by row, against their own forward."""

import pytest
import torch
from transformers import (
    BloomConfig,
    CohereConfig,
    Gemma2Config,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)
from transformers.models.auto.modeling_auto import AutoModelForCausalLM

from trainer_hooks.reference.huggingface.decoders import ModelDecoder, decoder_for
from trainer_hooks.reference.huggingface.llama import LlamaDecoder
from trainer_hooks.reference.huggingface.policy import HuggingFacePolicy

LLAMA = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": None,
    "eos_token_id": None, "tie_word_embeddings": False,
}  # fmt: skip
LEAN = [
    Qwen2Config(**LLAMA),
    Qwen3Config(**LLAMA, head_dim=16),
    LlamaConfig(**LLAMA, attention_bias=True),
    MistralConfig(**LLAMA, sliding_window=None),
]
OWN = [
    GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=None, eos_token_id=None),
    GPTNeoXConfig(**{name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}),
    Gemma2Config(**LLAMA, head_dim=16),
    CohereConfig(**LLAMA),
]


def model_of(config, precision=torch.float32):
    """A random model whose logits are large enough for a cap or a scale to show."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).to(precision).eval()
    model.get_output_embeddings().weight.data *= 100
    return model


@pytest.mark.parametrize("config", LEAN + OWN, ids=lambda config: config.model_type)
def test_rows_of_any_length_decode_to_the_logits_of_the_forward(config):
    """Ragged chunks, single tokens, a row doubled, padding past the end: the last logits are the full forward's."""
    model = model_of(config)
    policy = HuggingFacePolicy(model, 40)
    decoder = decoder_for(model, 40)
    assert isinstance(decoder, LlamaDecoder if config in LEAN else ModelDecoder)
    tokens = torch.randint(0, 60, (3, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        full = model(input_ids=tokens, use_cache=False).logits
        rows, lengths = [0, 1, 2], [0, 0, 0]
        for counts in (
            [5, 1, 3],
            [1, 1, 1],
            [0, 7, 2],
            [1, 1, 1],
            "keep",
            [2, 1, 1, 9],
            [1, 1, 1, 1],
            [0, 0, 20, 1],
            [1, 0, 1, 13],
            [1, 1, 1, 1],
        ):
            if counts == "keep":
                decoder.cache.keep([0, 2, 2, 1])
                rows, lengths = [0, 2, 2, 1], [lengths[0], lengths[2], lengths[2], lengths[1]]
                continue
            chunk = torch.zeros(len(rows), max(counts), dtype=torch.long)
            for index, (row, start, count) in enumerate(zip(rows, lengths, counts, strict=True)):
                chunk[index, :count] = tokens[row, start : start + count]
            logits = policy.logits(decoder.feed(chunk, counts))
            lengths = [start + count for start, count in zip(lengths, counts, strict=True)]
            for index, (row, length, count) in enumerate(zip(rows, lengths, counts, strict=True)):
                if count:
                    assert torch.allclose(logits[index, count - 1], full[row, length - 1], atol=2e-3, rtol=1e-3)


def test_a_single_row_is_decoded_where_attention_returns_its_result_by_position(monkeypatch):
    """PyTorch's kernels for GPUs may return the same numbers in another order of memory than those for a CPU."""
    attend = torch.nn.functional.scaled_dot_product_attention

    def attend_by_position(*arguments, **options):
        return attend(*arguments, **options).transpose(1, 2).contiguous().transpose(1, 2)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attend_by_position)
    model = model_of(LEAN[0])
    policy, decoder = HuggingFacePolicy(model, 40), decoder_for(model, 40)
    tokens = torch.randint(0, 60, (1, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        full = model(input_ids=tokens, use_cache=False).logits
        logits = policy.logits(decoder.feed(tokens, [40]))
    assert torch.allclose(logits, full, atol=2e-3, rtol=1e-3)


def test_a_model_in_bfloat16_is_taken():
    """Its decoder passes the check at the precision of the model."""
    HuggingFacePolicy(model_of(LEAN[0], torch.bfloat16), 40)


@pytest.mark.parametrize(
    "config",
    [
        MambaConfig(vocab_size=60, hidden_size=32, num_hidden_layers=1),
        BloomConfig(vocab_size=60, hidden_size=32, n_layer=1, n_head=2),
    ],
    ids=["mamba", "bloom"],
)
def test_an_architecture_without_such_a_cache_is_refused(config):
    """The message names the class."""
    config.eos_token_id = config.bos_token_id = config.pad_token_id = None
    with pytest.raises(ValueError, match=r"(Mamba|Bloom)ForCausalLM cannot be decoded row by row"):
        HuggingFacePolicy(model_of(config), 40)


def test_more_context_than_positions_or_window_is_refused():
    """Both numbers stand in the message."""
    with pytest.raises(ValueError, match="above the model's 64 positions, got 65"):
        HuggingFacePolicy(model_of(LEAN[0]), 65)
    with pytest.raises(ValueError, match="above the window of the model's attention, 16, got 40"):
        HuggingFacePolicy(model_of(MistralConfig(**LLAMA, sliding_window=16)), 40)
