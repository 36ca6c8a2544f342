"""One rank of a tiny TRL run; started by torchrun. Arguments: output folder, collector address or nothing."""

import hashlib
import sys
from pathlib import Path

import tiny_trl

from trainer_hooks.callbacks.trl import VitalsCallback

folder, url = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
callbacks = [VitalsCallback(url=url, run="ddp")] if url else []
trainer = tiny_trl.trainer(folder, callbacks, num_iterations=2, per_device_train_batch_size=2)
trainer.train()
rank = trainer.accelerator.process_index
rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
(folder / f"rank{rank}.txt").write_text(f"{hashlib.sha256(tiny_trl.weights(trainer)).hexdigest()} {rewards}")
