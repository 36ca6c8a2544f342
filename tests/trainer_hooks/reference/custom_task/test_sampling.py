"""Sampled tokens, against the probabilities of a plain forward."""

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from benchmarks.sampling import Silent
from trainer_hooks.reference.huggingface.policy import HuggingFacePolicy


def test_second_tokens_come_as_often_as_the_forward_says():
    """Of 8,000 responses of 2 tokens, each second token is as frequent as Σ π(first) π(second | first), in 5 errors."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = Qwen2Config(
            vocab_size=12, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=16, tie_word_embeddings=True, eos_token_id=None,
            bos_token_id=None, pad_token_id=0, initializer_range=0.4,
        )  # fmt: skip
        model = Qwen2ForCausalLM(config).eval()
    prompt, count = [3, 1, 4], 8000
    environment = Silent([prompt], 2, [])
    sampled = HuggingFacePolicy(model, 16).sample(
        environment,
        [environment.episode(0) for _ in range(count)],
        generator=torch.Generator().manual_seed(0),
        temperature=0.8,
    )
    with torch.no_grad():
        first = (model(torch.tensor([prompt])).logits[0, -1] / 0.8).softmax(dim=0)
        extended = torch.tensor([[*prompt, token] for token in range(12)])
        expected = first @ (model(extended).logits[:, -1] / 0.8).softmax(dim=1)
    assert expected.max() > 3 * expected.min()
    counted = torch.bincount(sampled.tokens[:, 4], minlength=12) / count
    assert ((counted - expected).abs() <= 5 * (expected * (1 - expected) / count).sqrt()).all()
    # Each token's own log-probability under the sampler, at temperature 0.8.
    assert sampled.sampler_logprobs is not None
    firsts = first.log()[sampled.tokens[:, 3]]
    assert torch.allclose(sampled.sampler_logprobs[:, 3], firsts, atol=1e-4)
    assert sampled.sampler_logprobs[:, :3].eq(0).all()
