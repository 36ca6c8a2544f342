"""Run one rank of a tiny TRL training with LLDS. Argument: output folder."""

import json
import sys
from pathlib import Path

from tiny_llds import train, whole_penalty

from trainer_hooks.reference.distributed import SINGLE_PROCESS


def main(folder):
    """Train two passes; write this rank's share of the second pass, and TRL's log of it."""
    trainer, (_, (scalars, tokens)) = train(folder, per_device_train_batch_size=2, llds_gate="none")
    mine = {
        "lost": whole_penalty(tokens, gate="none", normaliser=1).item(),
        "count": int(tokens["mask"][tokens["advantages"] >= 0].sum()),
        "logged": scalars.get("loss/llds"),  # by the first rank
    }
    (folder / f"rank{trainer.accelerator.process_index}.json").write_text(json.dumps(mine))


main(Path(sys.argv[1]))
SINGLE_PROCESS.leave()
