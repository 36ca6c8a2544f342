"""GRPO of a mixture of experts with TRL and model monitors: attention, expert routers, gradients, by one argument."""

import tempfile

from tiny_language_model import mixture_of_experts, model_and_tokenizer, prompts, share_of_vowels
from trl import GRPOConfig, GRPOTrainer

from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.model_monitors import ModelMonitors

_, tokenizer = model_and_tokenizer()
trainer = GRPOTrainer(
    model=mixture_of_experts(),
    reward_funcs=share_of_vowels,
    args=GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=12,
        max_steps=6,
        learning_rate=1e-2,
        save_strategy="no",
        use_cpu=True,
    ),
    train_dataset=prompts(),
    processing_class=tokenizer,
    callbacks=[VitalsCallback(model_monitors=ModelMonitors(every=5))],
)
trainer.train()
