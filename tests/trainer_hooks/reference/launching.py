"""Starts the reference trainer on one rank or on two."""

import os
from pathlib import Path

from tests import ranks, warm

ROOT = Path(__file__).parents[3]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--"]
ONE, TWO = 1, 2


def launch(world_size, folder, cache, *options, stdout=None):
    """Train on the CPU with a log and checkpoints in a folder, as one process or as several ranks."""
    command = ["trainer_hooks.reference", *_options(folder, cache, options)]
    if world_size > 1:
        # The trainer joins the ranks that torchrun starts, which it recognises by this variable.
        ranks.launch(*command, world_size=world_size, stdout=stdout, TORCHELASTIC_RUN_ID="tests")
        return
    done = warm.run(["-m", *command], env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=240)
    assert done.returncode == 0, done.stdout


def launch_by_torchrun(module, folder, cache, *options):
    """Train on two ranks that torchrun starts, and return the output."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = warm.run([*TORCHRUN, module, *_options(folder, cache, options)], env=environment, timeout=240)
    assert done.returncode == 0, done.stdout
    return done.stdout


def _options(folder, cache, options):
    folder.mkdir(exist_ok=True)
    places = ["--cache", str(cache), "--log", str(folder / "log.jsonl"), "--checkpoints", str(folder)]
    return ["--preset", "tiny", "--device", "cpu", *options, *places]
