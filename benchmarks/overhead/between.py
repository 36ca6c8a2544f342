"""The work of a training between two logged steps: it holds the interpreter, sleeps, or computes.

While pure Python runs, a tool's threads compete for the interpreter, but keep the processor's caches. A training that
waits for an accelerator leaves both to the tool. A training by torch on this processor has evicted the tool's code and
data from the caches by the next step.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Literal

__all__ = ["BETWEEN", "Between", "hold_interpreter"]

Between = Literal["python", "waiting", "torch"]
TRAINING_SECONDS = 0.005
WORDS, WIDTH, BATCH, LENGTH = 512, 128, 8, 64


def hold_interpreter(seconds: float) -> None:
    """Run pure Python for this time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def _torch() -> Callable[[], None]:
    import torch  # noqa: PLC0415 - the other trainings, and most tools, do not need it
    from torch import nn  # noqa: PLC0415

    torch.set_num_threads(1)
    layers = [nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True) for _ in range(2)]
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *layers, nn.Linear(WIDTH, WORDS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(WORDS, (BATCH, LENGTH))

    def train() -> None:
        end = time.perf_counter() + TRAINING_SECONDS
        while time.perf_counter() < end:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return train


# Each returns a function that trains for some milliseconds.
BETWEEN: dict[Between, Callable[[], Callable[[], None]]] = {
    "python": lambda: partial(hold_interpreter, TRAINING_SECONDS),
    "waiting": lambda: partial(time.sleep, TRAINING_SECONDS),
    "torch": _torch,
}
