"""A plain Trainer of transformers that fits a tiny language model."""

import tiny_trl
import torch
from datasets import Dataset
from transformers import Trainer, TrainingArguments, set_seed


def tiny_trainer(folder, callbacks=(), **options):
    """Return a plain Trainer that fits a tiny language model for four steps."""
    torch.set_num_threads(1)
    set_seed(5)
    rows = [{"input_ids": [3, 4, 5, index % 8 + 6], "labels": [3, 4, 5, index % 8 + 6]} for index in range(32)]
    settings = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "logging_steps": 2,
        "max_grad_norm": 0.05,
        "use_cpu": True,
        "save_strategy": "no",
        "disable_tqdm": True,
    } | options
    return Trainer(
        model=tiny_trl.model(folder / "model"),
        args=TrainingArguments(**settings),
        train_dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list(rows[:4]),
        callbacks=list(callbacks),
    )
