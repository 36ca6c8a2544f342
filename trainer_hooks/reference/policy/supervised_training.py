"""Supervised training on demonstrations; the trained weights are kept on disk, so that a second run begins at once."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from trainer_hooks.reference.policy.token_statistics import token_statistics
from trainer_hooks.reference.protocols import Demonstration, Policy
from trainer_hooks.reference.state_files import write_whole

__all__ = ["locate_cached_weights", "read_or_train", "train_on_demonstrations"]

_CLIMB = 0.1
"""Share of the steps during which the learning rate rises."""


def locate_cached_weights(cache: Path, name: str, relevant: tuple[object, ...]) -> Path:
    """Return the file of the weights that are trained with certain settings, in a cache of many.

    Args:
        cache: The folder.
        name: The name of the model; the name of the file begins with it.
        relevant: Everything that the weights depend on; its representation is hashed.
    """
    return cache / f"{name}-{hashlib.blake2b(repr(relevant).encode(), digest_size=6).hexdigest()}.pt"


def read_or_train(policy: Policy, path: Path, train: Callable[[], None], *, report: Callable[[str], None]) -> None:
    """Load the weights of a policy from a file, or train it and write the file.

    Args:
        policy: The policy whose weights are replaced or trained, in place.
        path: The file. It is written atomically, even if several ranks write it at the same time.
        train: Trains the policy.
        report: Takes a line that says that the file was read.

    Raises:
        OSError: If the file cannot be written, as on a full disk.
    """
    if path.exists():
        # The file may come from a machine with a GPU that this machine lacks.
        policy.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
        report(f"warm start read from {path}")
        return
    train()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(policy.state_dict(), path, is_shared=True)


def train_on_demonstrations(
    policy: Policy,
    draw_batch: Callable[[], Sequence[Demonstration]],
    *,
    steps: int,
    lr: float,
    context: int,
    report: Callable[[str], None],
) -> None:
    """Maximise the likelihood of the action tokens of demonstrations, with AdamW.

    Args:
        policy: Trained in place.
        draw_batch: Returns the demonstrations of a step.
        steps: Updates, at least 1.
        lr: Highest learning rate; it climbs for a tenth of the steps, if that is more than one step, and then falls to
            zero.
        context: A longer demonstration is cut to so many tokens.
        report: Takes a line of progress at the first step, at each hundredth, and at the last.
    """
    device = next(policy.parameters()).device
    optimiser = torch.optim.AdamW(policy.parameters(), lr=lr, weight_decay=0.01)
    # OneCycleLR divides by zero if the climb is a single step, and a single step would have the rate zero.
    climb = _CLIMB if _CLIMB * steps > 1 else 0.0
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, lr, total_steps=max(steps, 2), pct_start=climb)
    for step in range(steps):
        tokens, mask = (tensor.to(device) for tensor in _pad(draw_batch(), context))
        logprobs, _ = token_statistics(policy, tokens, mask)
        loss = -logprobs.sum() / mask.sum()
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            report(f"warm start {step + 1:>5}/{steps}  loss {loss.item():.3f} nat a token")


def _pad(demonstrations: Sequence[Demonstration], context: int) -> tuple[Tensor, Tensor]:
    """Return token ids and action mask as arrays ``(B, T)``."""
    length = min(context, max(len(item.tokens) for item in demonstrations))
    tokens = torch.zeros(len(demonstrations), length, dtype=torch.long)
    mask = torch.zeros(len(demonstrations), length, dtype=torch.bool)
    for row, item in enumerate(demonstrations):
        kept = min(length, len(item.tokens))
        tokens[row, :kept] = torch.tensor(item.tokens[:kept])
        mask[row, :kept] = torch.tensor(item.is_action[:kept])
    return tokens, mask
