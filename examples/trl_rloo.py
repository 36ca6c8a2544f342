"""RLOO with TRL, watched: the same last argument as for GRPO."""

import tempfile

from tiny_language_model import model_and_tokenizer, prompts, share_of_vowels
from trl import RLOOConfig, RLOOTrainer

from trainer_hooks.callbacks.trl import VitalsCallback

model, tokenizer = model_and_tokenizer()
trainer = RLOOTrainer(
    model=model,
    reward_funcs=share_of_vowels,
    args=RLOOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=12,
        beta=0.0,  # the reference model would be looked for on the hub
        max_steps=5,
        learning_rate=1e-2,
        save_strategy="no",
        use_cpu=True,
    ),
    train_dataset=prompts(),
    processing_class=tokenizer,
    callbacks=[VitalsCallback()],
)
trainer.train()
