"""The processes that train one model together, as torchrun starts them; one process alone is the common case.

Every rank draws the same questions and samples the same rollout batch from the same generators. It then keeps its
share, which consists of whole groups, to score, train on and stream. So each rank samples the responses of all ranks;
in return, a run is the same on any number of ranks except for rounding.
"""

import gc
from dataclasses import dataclass
from typing import Self, TypeVar

import torch

# Averaging imports this module, which keeps for good the default group that exists at its import (torch 2.13).
# Therefore it is imported before a group exists.
import torch.distributed.nn.functional
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

__all__ = ["SINGLE_PROCESS", "Ranks"]

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process's place among those that train together; with one process every method is trivial."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls) -> Self:
        """Join the processes that torchrun has started, over gloo; a single process where it has not."""
        if not distributed.is_torchelastic_launched():
            return cls()
        distributed.init_process_group("gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    def leave(self) -> None:
        """Leave the process group, after every averaging module has been released; the process can then end."""
        if distributed.is_initialized():
            # A module keeps its group, and a group keeps gloo's threads. A thread that still holds a tensor needs the
            # interpreter to release it, and aborts the process if the interpreter ends first (torch 2.13).
            gc.collect()
            distributed.destroy_process_group()

    def shard(self, tensor: Tensor) -> Tensor:
        """Return this rank's part of a tensor that is cut along its first dimension."""
        return tensor.tensor_split(self.size)[self.rank]

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over the ranks."""
        if self.size == 1:
            return tensor
        total = tensor.detach().cpu().clone()
        distributed.all_reduce(total)
        return total.to(tensor.device)

    def broadcast(self, value: Item) -> Item:
        """Return rank 0's value, because ranks that decide separately could wait for each other for ever."""
        if self.size == 1:
            return value
        held = [value]
        distributed.broadcast_object_list(held, src=0)
        return held[0]

    def gather(self, value: Item) -> list[Item]:
        """Return the values of all ranks, by rank."""
        if self.size == 1:
            return [value]
        held: list[Item | None] = [None] * self.size
        distributed.all_gather_object(held, value)
        return held  # type: ignore[return-value]

    def barrier(self) -> None:
        """Wait until all ranks have called this."""
        if self.size > 1:
            distributed.barrier()

    def wrap(self, module: nn.Module) -> nn.Module:
        """Wrap a module so that its backward pass averages gradients over the ranks; the weights become rank 0's."""
        if self.size == 1:
            return module
        device = next(module.parameters()).device
        return DistributedDataParallel(module, device_ids=[device] if device.type == "cuda" else None)


SINGLE_PROCESS = Ranks()


def device_of(name: str, ranks: Ranks) -> torch.device:
    """Return the device of a setting: ``"auto"`` is a GPU where there is one, each rank on its own while they last.

    Raises:
        ValueError: If a GPU is asked for where torch finds none.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        if not torch.cuda.is_available():
            raise ValueError("device cuda needs a GPU and a torch that is built for it, and torch finds none")
        return torch.device("cuda", ranks.rank % max(1, torch.cuda.device_count()))
    return torch.device(name)
