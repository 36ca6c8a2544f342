"""Runs a model between the passes of training without a trace. Depends on torch and on no framework."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.modules.module import register_module_forward_pre_hook

__all__ = ["evaluating", "has_dropout", "without_trace"]


@contextmanager
def without_trace() -> Iterator[None]:
    """Keep a forward pass in this context from changing gradients, random generators, sharding and autocast's cache."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    # Autocast keeps the weights that it casts until its outermost context ends. A weight that is cast without gradients
    # would then be used by the passes of training.
    is_cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices), _resharding():
            yield
    finally:
        torch.set_autocast_cache_enabled(is_cached)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and each of its modules back into its own mode afterwards.

    The modes are set without `Module.train`, which some modules override: loralib adds its matrices to the weights in
    evaluation mode and subtracts them again, which rounds.
    """
    modes = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def has_dropout(model: nn.Module) -> bool:
    """Return whether a forward pass of the model in its present mode drops activations at random.

    Found are torch's dropout modules, and modules that hold a rate under a name that ends with ``dropout`` or
    ``layerdrop``, as the attention of transformers does.
    """
    return any(module.training and _drop_rate(module) > 0.0 for module in model.modules())


def _drop_rate(module: nn.Module) -> float:
    if isinstance(module, nn.modules.dropout._DropoutNd):  # noqa: SLF001 - the base class of all of torch's
        return float(module.p)
    rates = [value for name, value in vars(module).items() if name.endswith(("dropout", "layerdrop"))]
    return max((float(rate) for rate in rates if isinstance(rate, int | float)), default=0.0)


@contextmanager
def _resharding() -> Iterator[None]:
    """Make every FSDP module that is called in this context gather its weights anew at its next call.

    The outermost module keeps its weights gathered after a forward pass, for the backward pass that FSDP expects. After
    a forward pass without a backward pass, an update would change only the shards, and the next forward pass, also of
    training itself, would use the old weights.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        yield
        return
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel  # noqa: PLC0415 - the import takes half a second and few need it

    called: list[Any] = []
    handle_of_hook = register_module_forward_pre_hook(lambda module, _: called.append(module))
    try:
        yield
    finally:
        handle_of_hook.remove()
        for module in called:
            if isinstance(module, FSDPModule):
                module.reshard()
            elif isinstance(module, FullyShardedDataParallel):
                handle = module._handle  # noqa: SLF001 - FSDP1 has no public name for it
                if handle is not None:
                    handle.reshard(True)
