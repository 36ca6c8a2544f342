"""A model, a tokenizer, questions and a corpus, all made here and small."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from tests.trainer_hooks.reference.custom_task.making import (
    CAPITALS,
    PROMPT,
    corpus,
    environment_of,
    write_lines,
)
from trainer_hooks.reference.config import Config
from trainer_hooks.reference.custom_task.supervised_start import demonstrate
from trainer_hooks.reference.huggingface.policy import HuggingFacePolicy
from trainer_hooks.reference.policy.supervised_training import train_on_demonstrations


@pytest.fixture(scope="session")
def tokenizer():
    """A byte-level tokenizer whose tags are several tokens long, as with models never trained on them."""
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    texts = [f"The capital of {country} is {city}. Q: capital of {country}?" for country, city in CAPITALS.items()]
    trainer = trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<pad>", "<eos>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    inner.train_from_iterator(texts * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")  # noqa: S106 - tokens of text


@pytest.fixture(scope="session")
def model_folder(tokenizer, tmp_path_factory):
    """A random Qwen2 of 60,000 weights with its tokenizer, as a Hugging Face folder."""
    folder = tmp_path_factory.mktemp("model")
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, bos_token_id=None,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def questions_file(tmp_path_factory):
    """Twenty questions, in turns in the form of NQ and of HotpotQA."""
    rows = []
    for number in range(20):
        country, city = list(CAPITALS.items())[number % len(CAPITALS)]
        form = {"golden_answers": [city, f"{city} city"]} if number % 2 else {"answer": city, "type": "bridge"}
        rows.append({"id": f"q{number}", "question": f"capital of {country}?"} | form)
    return write_lines(tmp_path_factory.mktemp("data") / "questions.jsonl", rows)


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory):
    """A passage a country."""
    rows = [
        {"id": str(number), "contents": f'"{country}"\nThe capital of {country} is {city}.'}
        for number, (country, city) in enumerate(CAPITALS.items())
    ]
    return write_lines(tmp_path_factory.mktemp("data") / "corpus.jsonl", rows)


@pytest.fixture(scope="session")
def prompt_file(tmp_path_factory):
    """A short prompt, so that contexts can be short."""
    path = tmp_path_factory.mktemp("data") / "prompt.txt"
    path.write_text(PROMPT)
    return path


@pytest.fixture
def search_config(model_folder, questions_file, corpus_file, prompt_file, tmp_path):
    """Settings of a run small enough for a second a step."""
    return Config(
        model=model_folder, questions=questions_file, corpus=corpus_file, prompt=prompt_file, cache=tmp_path,
        questions_per_step=2, group_size=2, minibatches=2, epochs=1, held_out=2, steps=2, context=160, max_actions=3,
        max_action_tokens=40, max_feedback_tokens=24, topk=1, tool_timeout=5.0, lr=1e-3,
    )  # fmt: skip


@pytest.fixture(scope="session")
def taught_folder(model_folder, tokenizer, tmp_path_factory):
    """The same model after it was taught to search and then to answer, which it does most of the time."""
    torch.set_num_threads(1)
    environment = environment_of(tokenizer, corpus())
    policy = HuggingFacePolicy.load(model_folder, context=160)
    train_on_demonstrations(
        policy,
        lambda: demonstrate(environment, environment.questions),
        steps=150,
        lr=1e-2,
        context=160,
        report=lambda _: None,
    )
    folder = tmp_path_factory.mktemp("taught")
    policy.model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
