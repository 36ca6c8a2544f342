"""Sharding of modules by FSDP."""

import torch
from torch.distributed.fsdp import FullyShardedDataParallel


def shard_1(module):
    """Wrap the model in FSDP1."""
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=True)
