"""Any transformers Trainer, watched: the import makes `report_to="rlvitals"` known."""

import tempfile

from datasets import Dataset
from tiny_language_model import model_and_tokenizer
from transformers import Trainer, TrainingArguments

import trainer_hooks.callbacks.transformers  # noqa: F401 - makes report_to="rlvitals" known

model, tokenizer = model_and_tokenizer()
rows = [{"input_ids": [3, 4, 5, index % 8 + 6], "labels": [3, 4, 5, index % 8 + 6]} for index in range(64)]
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=8,
        max_steps=10,
        learning_rate=1e-2,
        save_strategy="no",
        use_cpu=True,
        report_to="rlvitals",
    ),
    train_dataset=Dataset.from_list(rows),
)
trainer.train()
