"""GRPO with TRL and LLDS against lazy likelihood displacement: another trainer, four more settings, all else TRL's."""

import tempfile

from tiny_language_model import model_and_tokenizer, prompts, share_of_vowels

from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.losses.trl import LLDSConfig, LLDSGRPOTrainer

model, tokenizer = model_and_tokenizer()
trainer = LLDSGRPOTrainer(
    model=model,
    reward_funcs=share_of_vowels,
    args=LLDSConfig(
        output_dir=tempfile.mkdtemp(),
        llds_coef=0.1,
        llds_gate="action",
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=12,
        num_iterations=2,  # LLDS acts from the second update on a rollout
        max_steps=6,
        learning_rate=1e-2,
        save_strategy="no",
        use_cpu=True,
    ),
    train_dataset=prompts(),
    processing_class=tokenizer,
    callbacks=[VitalsCallback()],
)
trainer.train()
