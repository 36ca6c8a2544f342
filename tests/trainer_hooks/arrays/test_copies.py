from sys import getsizeof

import numpy as np
import torch

from tests.trainer_hooks.large_steps import arguments
from trainer_hooks.arrays.copies import CopyPool


def test_the_trainer_may_overwrite_its_arguments():
    """Large arrays, small ones, tensors, lists of rows and of texts, and the bounds of a clip range are all copied."""
    given = arguments(entropies=torch.ones(64, 512), advantages=[1.0] * 64, texts=["a"] * 64, control_ids=np.arange(3))
    given["clip_range"] = torch.tensor([0.25, 0.5])
    copies = CopyPool().copy(given)
    for value in given.values():
        if isinstance(value, list):
            value.clear()
        else:
            value[:] = 0
    assert (copies.arguments["logprobs"] == -1).all()
    assert (copies.arguments["entropies"] == 1).all()
    assert copies.arguments["mask"].all()
    assert copies.arguments["rewards"].tolist() == copies.arguments["advantages"].tolist() == [1.0] * 64
    assert copies.arguments["texts"] == ("a",) * 64
    assert copies.arguments["control_ids"] == (0, 1, 2)
    assert copies.arguments["clip_range"] == [0.25, 0.5]
    bounds = [0.25, 0.5]
    copied = CopyPool().copy({"clip_range": bounds}).arguments["clip_range"]
    bounds.clear()
    assert copied == [0.25, 0.5]
    lists = 2 * getsizeof(0.5) + 64 * getsizeof("a") + 3 * getsizeof(np.int64(0))
    assert copies.nbytes == 2 * 4 * 64 * 512 + 64 * 512 + 2 * 8 * 64 + lists


def test_released_memory_is_used_again():
    """A step of the same size takes no new memory, and one of another size works too."""
    pool = CopyPool()
    first = pool.copy(arguments())
    address = first.arguments["logprobs"].ctypes.data
    second = pool.copy(arguments())
    assert second.arguments["logprobs"].ctypes.data != address
    first.release()
    assert pool.copy(arguments()).arguments["logprobs"].ctypes.data == address
    second.release()
    larger = pool.copy(arguments(128)).arguments["logprobs"]
    assert larger.shape == (128, 512)
    assert (larger == -1).all()


def test_a_tensor_that_is_not_copied_keeps_no_graph_of_gradients():
    """Its graph holds the activations of a whole forward pass, and the step may wait for a second."""
    lent = CopyPool().copy(arguments(entropies=torch.ones(64, 512, requires_grad=True).exp(), copy=False))
    assert lent.arguments["entropies"].grad_fn is None
