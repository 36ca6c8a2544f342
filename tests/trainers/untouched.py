"""Runs a trainer's training unwatched, or watched once for each collector. Arguments: the model's folder, then arms.

An arm is an address and a folder for unsent records. Prints the final state of each training.
"""

import hashlib
import os
import random
import sys
from collections.abc import Callable, Iterable

import numpy as np
import torch

import trainer_hooks


def run(train: Callable[[str], Iterable[torch.Tensor]]) -> None:
    """Train, which gives the weights, from the same seeds each time."""
    folder, *arms = sys.argv[1:]
    torch.set_num_threads(1)
    pairs = zip(arms[::2], arms[1::2], strict=True) if arms else [("", "")]
    for number, (url, spool) in enumerate(pairs):
        # The first collector answers, and the others do not. Other tests check the length of the wait at the end.
        trainer_hooks.Monitor.__init__.__kwdefaults__["close_timeout_seconds"] = 2.0 if number else 60.0
        os.environ |= {"RLVITALS_URL": url, "RLVITALS_SPOOL_DIR": spool}
        seed()
        print("end", fingerprint(train(folder)), flush=True)  # noqa: T201 - the test reads it


def seed() -> None:
    """Seed every generator that a trainer draws from."""
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002 - what trainers draw from
    torch.manual_seed(3)


def fingerprint(weights: Iterable[torch.Tensor]) -> str:
    """Return a fingerprint of the weights and of every random generator."""
    found = hashlib.sha256(b"".join(weight.detach().cpu().numpy().tobytes() for weight in weights))
    states = random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()  # noqa: NPY002 - likewise
    found.update(repr(states).encode())
    return found.hexdigest()
