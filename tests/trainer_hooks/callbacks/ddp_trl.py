"""Run one rank of a tiny TRL training. Arguments: output folder, and the collector's address or nothing."""

import hashlib
import sys
from pathlib import Path

import tiny_trl
from transformers import TrainerCallback

from trainer_hooks.callbacks.trl import VitalsCallback
from trainer_hooks.reference.distributed import SINGLE_PROCESS


def main(folder, url=None):
    """Train, and write a hash of the final weights and the rewards that TRL logged."""
    callbacks = [VitalsCallback(url=url, run="ddp")] if url else []
    options = {"num_iterations": 2, "per_device_train_batch_size": 2, "eval_on_start": True}
    trainer = tiny_trl.trainer(folder, callbacks, **options)

    class LogsWords(TrainerCallback):
        def on_train_begin(self, *_, **__):
            trainer.log({"note": "no number"})

    trainer.add_callback(LogsWords())
    trainer.train()
    rank = trainer.accelerator.process_index
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    (folder / f"rank{rank}.txt").write_text(f"{hashlib.sha256(tiny_trl.weights(trainer)).hexdigest()} {rewards}")


main(Path(sys.argv[1]), *sys.argv[2:])
SINGLE_PROCESS.leave()
