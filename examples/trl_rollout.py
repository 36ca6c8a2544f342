"""GRPO with TRL and an environment of your own, watched: the environment's tokens are in no likelihood."""

import tempfile
from typing import Any

import torch
from tiny_language_model import model_and_tokenizer, prompts
from trl import GRPOConfig, GRPOTrainer

from trainer_hooks.callbacks.trl import VitalsCallback


def ask_twice(asked: list[str], trainer: Any) -> dict[str, list[list[int]]]:  # noqa: ANN401 - TRL's trainer
    """Sample three tokens, answer with one, and sample two more; here tokens are drawn at random, not by the policy."""
    words = trainer.processing_class
    letters = torch.randint(3, 29, (len(asked), 5)).tolist()
    completions = [[*row[:3], 30, *row[3:]] for row in letters]
    return {
        "prompt_ids": [words(prompt)["input_ids"] for prompt in asked],
        "completion_ids": completions,
        "logprobs": [[-3.26] * 6 for _ in asked],
        "env_mask": [[1, 1, 1, 0, 1, 1] for _ in asked],
    }


def says_a(completions: list[str], **_: object) -> list[float]:
    """Reward the letter a."""
    return [float("a" in text) for text in completions]


model, tokenizer = model_and_tokenizer()
trainer = GRPOTrainer(
    model=model,
    reward_funcs=says_a,
    args=GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=12,
        max_steps=5,
        learning_rate=1e-2,
        save_strategy="no",
        use_cpu=True,
    ),
    train_dataset=prompts(),
    processing_class=tokenizer,
    rollout_func=ask_twice,
    callbacks=[VitalsCallback()],
)
trainer.train()
