"""What a training does between two steps that are logged: it holds the interpreter, or it computes.

Pure Python has a tool's threads compete for the interpreter, and leaves the processor's caches to the tool. A training
by torch has driven code and data of the tool out of them by the next step.
"""

import time
from collections.abc import Callable
from typing import Literal

__all__ = ["BETWEEN", "Between"]

Between = Literal["python", "torch"]
TRAINING_SECONDS = 0.005
WORDS, WIDTH, BATCH, LENGTH = 512, 128, 8, 64


def _python() -> Callable[[], None]:
    def train() -> None:
        end = time.perf_counter() + TRAINING_SECONDS
        while time.perf_counter() < end:
            pass

    return train


def _torch() -> Callable[[], None]:
    import torch  # noqa: PLC0415 - the other training, and most tools, do without
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


# Each gives a function that trains for some milliseconds.
BETWEEN: dict[Between, Callable[[], Callable[[], None]]] = {"python": _python, "torch": _torch}
