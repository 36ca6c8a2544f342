"""GRPO with TRL, watched: the last argument of the trainer is the only line that is not TRL's."""

import tempfile

from tiny_language_model import model_and_tokenizer, prompts, share_of_vowels
from trl import GRPOConfig, GRPOTrainer

from trainer_hooks.callbacks.trl import VitalsCallback

model, tokenizer = model_and_tokenizer()
trainer = GRPOTrainer(
    model=model,
    reward_funcs=share_of_vowels,
    args=GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=12,
        num_iterations=2,
        max_steps=10,
        learning_rate=1e-2,
        save_strategy="no",
        use_cpu=True,
    ),
    train_dataset=prompts(),
    processing_class=tokenizer,
    callbacks=[VitalsCallback()],
)
trainer.train()
