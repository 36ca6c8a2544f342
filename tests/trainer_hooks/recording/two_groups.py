"""A small step whose numbers are all known."""

import numpy as np

from trainer_hooks import Rollouts


def rollouts(**given_):
    """Two groups of three responses of up to 6 tokens; the third token of each is feedback."""
    mask = np.ones((6, 6), dtype=bool)
    mask[:, 2] = False
    mask[3, 3:] = False
    old = np.full((6, 6), -0.5)
    new = old.copy()
    new[0] -= 0.2  # correct, fell most of the correct ones
    new[1] -= 0.9  # wrong, fell most of all
    new[3] -= 0.1  # correct, fell a little
    new[5] = -7.0  # wrong and unlikely
    ids = np.tile(np.arange(6), (6, 1))
    ids[1, 4:] = 9  # shares 4 tokens with 0
    ids[2, 1:] = 9  # shares 1
    arrays = {
        "old_logprobs": old,
        "entropies": np.full((6, 6), 0.25),
        "advantages": np.arange(6.0),
        "group_ids": np.array([0, 0, 0, 1, 1, 1]),
        "token_ids": ids,
        "trained": True,
    } | given_
    rewards = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    return Rollouts(new, mask, rewards, **{name: value for name, value in arrays.items() if value is not None})
