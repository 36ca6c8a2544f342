"""``python -m benchmarks.probe``: the time that paired re-scoring adds to the training part of a step.

A small decoder is trained on microbatches in a plain loop, with and without the probe in turn, so that both run under
the same load. The table has the added time as a share of the steps without the probe, and the share expected from
counting forward passes: a forward pass takes 0.27 of forward and backward, and one microbatch is scored, at every n-th
step.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from trainer_hooks.probes.rescoring import PairedProbe
from trainer_hooks.signals import fetch
from trainer_hooks.signals.families import paired

MICROBATCHES, ROWS, TOKENS, WIDTH, VOCABULARY = 4, 4, 64, 128, 512
FORWARD_SHARE = 0.27
STEPS = 12


class Decoder(nn.Module):
    """A decoder of two layers; that is enough for a forward pass to be most of the time of scoring."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Compute log-probabilities and entropies of the tokens."""
        causal = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        logprobs = self.head(self.layers(self.embedding(tokens), mask=causal, is_causal=True)).log_softmax(-1)
        return logprobs.gather(-1, tokens[..., None])[..., 0], -(logprobs.exp() * logprobs).sum(-1)


def step(model: Decoder, optimizer: torch.optim.Optimizer, batches: Tensor, probe: PairedProbe | None) -> float:
    """Train on all microbatches and return the seconds; the probe scores the first of them."""
    started = time.perf_counter()
    for place, tokens in enumerate(batches):
        logprobs, entropies = model(tokens)
        (-logprobs.mean() / len(batches)).backward()
        if probe is not None and place == 0:
            probe.note(
                lambda tokens=tokens: model(tokens),  # type: ignore[misc]
                before=(logprobs.detach(), entropies.detach()),
                mask=torch.ones_like(tokens),
                correct=torch.ones(ROWS),
            )
    optimizer.step()
    optimizer.zero_grad()
    if probe is not None:
        for scores in probe.after_update():
            fetch(scores.library, list(paired.compute(scores).values()))
    return time.perf_counter() - started


def measure_added_share(take: Callable[[PairedProbe | None], float]) -> float:
    """Measure the share that the probe adds at a step where it is due: the median of steps in turn."""
    probe = PairedProbe(1)
    take(probe)
    shares = [(take(probe), take(None)) for _ in range(STEPS)]
    return float(np.median([with_probe / without - 1 for with_probe, without in shares]))


def main() -> int:
    """Print the table."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Decoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    print(f"{'microbatches a step':>20} {'probe every':>12} {'added':>8} {'by counting':>12}")
    for microbatches in (1, MICROBATCHES):
        batches = torch.randint(VOCABULARY, (microbatches, ROWS, TOKENS))
        share = measure_added_share(lambda probe, batches=batches: step(model, optimizer, batches, probe))  # type: ignore[misc]
        for every in (1, 5, 10):
            counted = FORWARD_SHARE / (every * microbatches)
            print(f"{microbatches:>20} {every:>12} {share / every:>8.2%} {counted:>12.2%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
